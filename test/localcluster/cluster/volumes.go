package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
)

const (
	storageClass   = "standard"
	provisioner    = "localcluster.atoll.dev/simulated"
	noProvisioner  = "kubernetes.io/no-provisioner"
	provisionedBy  = "pv.kubernetes.io/provisioned-by"
	defaultClass   = "storageclass.kubernetes.io/is-default-class"
	volumeInterval = 500 * time.Millisecond
)

// volumes stands in for a storage driver: every claim that no existing volume
// fits gets one of its own, unless its class is one of another driver, and a volume goes with its claim.
// No data is kept: the pods that would write it are simulated.
type volumes struct {
	client  kubernetes.Interface
	dir     dataDir
	claims  corelisters.PersistentVolumeClaimLister
	volumes corelisters.PersistentVolumeLister
	classes storagelisters.StorageClassLister
}

// startVolumes makes the default storage class and simulates its storage driver.
func (c *Cluster) startVolumes(ctx context.Context, client kubernetes.Interface) error {
	class := &storagev1.StorageClass{
		ObjectMeta:        metav1.ObjectMeta{Name: storageClass, Annotations: map[string]string{defaultClass: "true"}},
		Provisioner:       provisioner,
		ReclaimPolicy:     ptr.To(corev1.PersistentVolumeReclaimDelete),
		VolumeBindingMode: ptr.To(storagev1.VolumeBindingImmediate),
	}
	if _, err := client.StorageV1().StorageClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("making the storage class: %w", err)
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	v := volumes{
		client:  client,
		dir:     c.dir,
		claims:  factory.Core().V1().PersistentVolumeClaims().Lister(),
		volumes: factory.Core().V1().PersistentVolumes().Lister(),
		classes: factory.Storage().V1().StorageClasses().Lister(),
	}
	changed := make(chan struct{}, 1)
	notify := func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	handler := cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { notify() },
		UpdateFunc: func(any, any) { notify() },
		DeleteFunc: func(any) { notify() },
	}
	for _, informer := range []cache.SharedIndexInformer{factory.Core().V1().PersistentVolumeClaims().Informer(), factory.Core().V1().PersistentVolumes().Informer()} {
		if _, err := informer.AddEventHandler(handler); err != nil {
			return fmt.Errorf("watching volumes: %w", err)
		}
	}
	c.add("volumes", func(ctx context.Context) error {
		factory.StartWithContext(ctx)
		defer factory.Shutdown()
		factory.WaitForCacheSync(ctx.Done())
		v.run(ctx, changed)
		return nil
	})
	return nil
}

// run looks at everything after each change; what failed is tried again.
func (v volumes) run(ctx context.Context, changed <-chan struct{}) {
	backoff := wait.Backoff{Duration: volumeInterval, Factor: 2, Steps: 6}
	retry := backoff
	for {
		var again <-chan time.Time
		if err := v.sync(ctx); err != nil {
			again = time.After(retry.Step())
		} else {
			retry = backoff
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-again:
		}
	}
}

func (v volumes) sync(ctx context.Context) error {
	existing, err := v.volumes.List(labels.Everything())
	if err != nil {
		return err
	}
	claims, err := v.claims.List(labels.Everything())
	if err != nil {
		return err
	}
	var errs []error
	for _, volume := range existing {
		if volume.Status.Phase == corev1.VolumeReleased && volume.Annotations[provisionedBy] == provisioner && volume.DeletionTimestamp == nil {
			if err := v.client.CoreV1().PersistentVolumes().Delete(ctx, volume.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
				errs = append(errs, err)
			}
		}
	}
	for _, claim := range claims {
		if claim.Spec.VolumeName != "" || claim.DeletionTimestamp != nil || claim.Status.Phase == corev1.ClaimBound || anyFits(claim, existing) || v.ofOther(claim) {
			continue
		}
		if _, err := v.client.CoreV1().PersistentVolumes().Create(ctx, v.volumeFor(claim), metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// ofOther reports whether the class of a claim is one of another driver, which makes its volumes.
func (v volumes) ofOther(claim *corev1.PersistentVolumeClaim) bool {
	class, err := v.classes.Get(ptr.Deref(claim.Spec.StorageClassName, ""))
	return err == nil && class.Provisioner != provisioner && class.Provisioner != noProvisioner
}

// anyFits reports whether the claim can be bound to a volume that is there: its
// own, or one that an admin made. Binding is kube-controller-manager's work.
func anyFits(claim *corev1.PersistentVolumeClaim, existing []*corev1.PersistentVolume) bool {
	return slices.ContainsFunc(existing, func(volume *corev1.PersistentVolume) bool {
		if ref := volume.Spec.ClaimRef; ref != nil {
			// One without a UID is reserved for a claim by name.
			return ref.UID == claim.UID || ref.UID == "" && ref.Namespace == claim.Namespace && ref.Name == claim.Name
		}
		capacity := volume.Spec.Capacity[corev1.ResourceStorage]
		return volume.Status.Phase == corev1.VolumeAvailable &&
			volume.Spec.StorageClassName == ptr.Deref(claim.Spec.StorageClassName, "") &&
			capacity.Cmp(claim.Spec.Resources.Requests[corev1.ResourceStorage]) >= 0 &&
			!slices.ContainsFunc(claim.Spec.AccessModes, func(m corev1.PersistentVolumeAccessMode) bool {
				return !slices.Contains(volume.Spec.AccessModes, m)
			})
	})
}

func (v volumes) volumeFor(claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolume {
	name := "pvc-" + string(claim.UID)
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{provisionedBy: provisioner}},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: claim.Spec.Resources.Requests[corev1.ResourceStorage]},
			AccessModes:                   claim.Spec.AccessModes,
			VolumeMode:                    claim.Spec.VolumeMode,
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			StorageClassName:              ptr.Deref(claim.Spec.StorageClassName, ""),
			PersistentVolumeSource:        corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: v.dir.path("volumes", name)}},
			ClaimRef: &corev1.ObjectReference{
				APIVersion: "v1", Kind: "PersistentVolumeClaim",
				Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID,
			},
		},
	}
}
