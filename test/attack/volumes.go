package attack

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/syncer"
)

// othersHandle is that of a volume of somebody else.
const othersHandle = "volume-of-somebody-else"

var handles = Attack{
	Name: "a tenant names no volume that a claim gets, and writes no record of one",
	Fence: func(ctx context.Context, w *World) error {
		ctx, err := w.placed(ctx)
		if err != nil {
			return err
		}
		who, err := w.tenant(ctx)
		if err != nil {
			return err
		}
		claims := who.kube.CoreV1().PersistentVolumeClaims("web")
		forged := map[string]string{placementv1alpha1.TargetsAnnotation: forgedTargets, "pv.kubernetes.io/bound-by-controller": "yes", "volume.kubernetes.io/selected-node": "node-1"}
		claim := claimOf("data")
		claim.Annotations = forged
		if claim, err = claims.Create(ctx, claim, metav1.CreateOptions{}); err != nil && !apierrors.IsForbidden(err) {
			return fmt.Errorf("creating a claim: %w", err)
		} else if err != nil {
			if claim, err = claims.Create(ctx, claimOf("data"), metav1.CreateOptions{}); err != nil {
				return fmt.Errorf("creating a claim: %w", err)
			}
		}
		if err := namesNone(claim); err != nil {
			return fmt.Errorf("created: %w", err)
		}
		patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, placementv1alpha1.TargetsAnnotation, forgedTargets)
		c, _ := scope.ClusterFrom(ctx)
		got, err := ask(ctx, who.config, "PATCH", scope.Scope{Cluster: c}.Path()+"/api/v1/namespaces/web/persistentvolumeclaims/data", patch)
		if err != nil || got.code >= 500 {
			return fmt.Errorf("patching a claim: %d %s (%w)", got.code, got.body, err)
		}
		if claim, err = claims.Get(ctx, "data", metav1.GetOptions{}); err != nil {
			return err
		}
		if err := namesNone(claim); err != nil {
			return fmt.Errorf("patched: %w", err)
		}
		named := claimOf("named")
		named.Spec.VolumeName = othersHandle
		if _, err := claims.Create(ctx, named, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}); !apierrors.IsForbidden(err) {
			return fmt.Errorf("a claim that names its volume: %w", err)
		}
		record := w.recordOf(claim, volumeWith(func(*placementv1alpha1.CopyVolume) {}))
		if _, err := who.atoll.PlacementV1alpha1().Copies("web").Create(ctx, record, metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
			return fmt.Errorf("a record of a volume: %w", err)
		}
		return nil
	},
	// Where the physical cluster lets tenants name volumes, they do.
	Control: func(ctx context.Context, w *World) (err error) {
		root := scope.WithCluster(ctx, scope.Root)
		static := func(permitted bool) error {
			client := w.admin.atoll.FleetV1alpha1().PhysicalClusters()
			return eventually(root, "permitting", func() error {
				pc, err := client.Get(root, Mallory, metav1.GetOptions{})
				if err != nil {
					return err
				}
				pc.Spec.Tenancy.StaticVolumes = permitted
				_, err = client.Update(root, pc, metav1.UpdateOptions{})
				return err
			})
		}
		if err := static(true); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, static(false)) }()
		if ctx, err = w.placed(ctx); err != nil {
			return err
		}
		return eventually(ctx, "where it is permitted", func() error {
			named := claimOf("named")
			named.Spec.VolumeName = othersHandle
			_, err := w.admin.kube.CoreV1().PersistentVolumeClaims("web").Create(ctx, named, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			return err
		})
	},
}

const forgedTargets = `{"` + Mallory + `":{"volume":{"from":"east","source":{"storageClass":"disks","driver":"disks.example.com","handle":"` + othersHandle + `","capacity":"1Gi","accessModes":["ReadWriteOnce"],"reclaimPolicy":"Delete"},` +
	`"copied":true,"snapshot":{"storageClass":"disks","driver":"disks.example.com","handle":"` + othersHandle + `"}}}}`

func namesNone(claim *corev1.PersistentVolumeClaim) error {
	if targets := claim.Annotations[placementv1alpha1.TargetsAnnotation]; strings.Contains(targets, othersHandle) {
		return fmt.Errorf("the targets are %s", targets)
	}
	return nil
}

func claimOf(name string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeClaimSpec{
		StorageClassName: ptr.To("disks"), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
	}}
}

// volumeWith is what a syncer says of a volume, with a change.
func volumeWith(change func(*placementv1alpha1.CopyVolume)) *placementv1alpha1.CopyVolume {
	v := &placementv1alpha1.CopyVolume{Name: "pv", Retained: true, Source: &placementv1alpha1.VolumeSource{
		StorageClass: "disks", Driver: "disks.example.com", Handle: othersHandle, Capacity: resource.MustParse("1Gi"),
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, ReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
	}}
	change(v)
	return v
}

// recordOf is the Copy of a claim on the hostile physical cluster.
func (w *World) recordOf(claim *corev1.PersistentVolumeClaim, v *placementv1alpha1.CopyVolume) *placementv1alpha1.Copy {
	return &placementv1alpha1.Copy{
		ObjectMeta: metav1.ObjectMeta{Name: syncer.CopyName(corev1.Resource("persistentvolumeclaims"), claim.Name, Mallory)},
		Spec: placementv1alpha1.CopySpec{PhysicalCluster: Mallory, Object: placementv1alpha1.ObjectReference{
			Version: "v1", Resource: "persistentvolumeclaims", Kind: "PersistentVolumeClaim", Name: claim.Name, UID: claim.UID,
		}},
		Status: placementv1alpha1.CopyStatus{State: placementv1alpha1.CopyPending, Volume: v},
	}
}

// endless are volumes of which more is said than anybody keeps, or than is handed over.
var endless = map[string]func(*placementv1alpha1.CopyVolume){
	"a long handle":      func(v *placementv1alpha1.CopyVolume) { v.Source.Handle = strings.Repeat("h", 64<<10) },
	"no handle":          func(v *placementv1alpha1.CopyVolume) { v.Source.Handle = "" },
	"a long name":        func(v *placementv1alpha1.CopyVolume) { v.Name = strings.Repeat("n", 64<<10) },
	"a long reason":      func(v *placementv1alpha1.CopyVolume) { v.Reason = strings.Repeat("r", 64<<10) },
	"a long driver":      func(v *placementv1alpha1.CopyVolume) { v.Source.Driver = strings.Repeat("d", 64<<10) },
	"a long file system": func(v *placementv1alpha1.CopyVolume) { v.Source.FSType = strings.Repeat("f", 64<<10) },
	"another policy":     func(v *placementv1alpha1.CopyVolume) { v.Source.ReclaimPolicy = "Recycle" },
	"a huge attribute": func(v *placementv1alpha1.CopyVolume) {
		v.Source.Attributes = map[string]string{"a": strings.Repeat("a", 1<<20)}
	},
	"a huge attribute key": func(v *placementv1alpha1.CopyVolume) {
		v.Source.Attributes = map[string]string{strings.Repeat("a", 1<<20): "a"}
	},
	"attributes without end": func(v *placementv1alpha1.CopyVolume) {
		v.Source.Attributes = map[string]string{}
		for i := range 10000 {
			v.Source.Attributes[fmt.Sprint("a", i)] = "a"
		}
	},
	"a long handle of a snapshot": func(v *placementv1alpha1.CopyVolume) {
		v.Content = &placementv1alpha1.VolumeContent{StorageClass: "disks", Driver: "disks.example.com",
			Snapshot: &placementv1alpha1.SnapshotSource{StorageClass: "disks", Driver: "disks.example.com", Handle: strings.Repeat("h", 64<<10)}}
	},
	"a long message of a snapshot": func(v *placementv1alpha1.CopyVolume) {
		v.Snapshot = &placementv1alpha1.VolumeSnapshot{Name: "snapshot", Message: strings.Repeat("m", 64<<10)}
	},
	"a volume restored from a long handle": func(v *placementv1alpha1.CopyVolume) {
		v.Filled = &placementv1alpha1.VolumeFilled{From: "east", Snapshot: strings.Repeat("h", 64<<10)}
	},
	"modes without end": func(v *placementv1alpha1.CopyVolume) {
		for range 10000 {
			v.Source.AccessModes = append(v.Source.AccessModes, corev1.ReadWriteOnce)
		}
	},
}

var reportedVolumes = Attack{
	Name: "a syncer reports volumes of claims that are placed with it only, and none without a bound",
	Fence: func(ctx context.Context, w *World) error {
		ctx, claim, err := w.claimed(ctx)
		if err != nil {
			return err
		}
		copies := w.mallory.atoll.PlacementV1alpha1().Copies("web")
		for what, change := range endless {
			if _, err := copies.Create(withTarget(ctx), w.recordOf(claim, volumeWith(change)), metav1.CreateOptions{}); !apierrors.IsInvalid(err) {
				return fmt.Errorf("%s: %w", what, errors.Join(errors.New("it is not refused"), err))
			}
		}
		// What is no claim has no volume.
		app, err := w.admin.kube.AppsV1().Deployments("web").Get(ctx, "app", metav1.GetOptions{})
		if err != nil {
			return err
		}
		record := w.recordOf(claim, volumeWith(func(*placementv1alpha1.CopyVolume) {}))
		record.Name = syncer.CopyName(corev1.Resource("deployments"), "app", Mallory)
		record.Spec.Object = placementv1alpha1.ObjectReference{Group: "apps", Version: "v1", Resource: "deployments", Kind: "Deployment", Name: "app", UID: app.UID}
		if _, err := copies.Create(withTarget(ctx), record, metav1.CreateOptions{}); !apierrors.IsInvalid(err) && !apierrors.IsForbidden(err) {
			return fmt.Errorf("the volume of a Deployment: %w", errors.Join(errors.New("it is not refused"), err))
		}
		// Nor is any other physical cluster its own, nor what is not placed there.
		record = w.recordOf(claim, volumeWith(func(*placementv1alpha1.CopyVolume) {}))
		record.Spec.PhysicalCluster = "east"
		record.Name = syncer.CopyName(corev1.Resource("persistentvolumeclaims"), claim.Name, "east")
		if _, err := copies.Create(withTarget(ctx), record, metav1.CreateOptions{}); !apierrors.IsForbidden(err) && !apierrors.IsNotFound(err) {
			return fmt.Errorf("the record of another physical cluster: %w", errors.Join(errors.New("it is not refused"), err))
		}
		other, err := w.cluster(ctx)
		if err != nil {
			return err
		}
		for name, ctx := range map[string]context.Context{"another logical cluster": other, "another namespace": ctx} {
			record := w.recordOf(claim, volumeWith(func(*placementv1alpha1.CopyVolume) {}))
			if _, err := w.mallory.atoll.PlacementV1alpha1().Copies("default").Create(withTarget(ctx), record, metav1.CreateOptions{}); !apierrors.IsForbidden(err) && !apierrors.IsNotFound(err) {
				return fmt.Errorf("in %s: %w", name, errors.Join(errors.New("it is not refused"), err))
			}
		}
		return nil
	},
	Control: func(ctx context.Context, w *World) error {
		ctx, claim, err := w.claimed(ctx)
		if err != nil {
			return err
		}
		_, err = w.mallory.atoll.PlacementV1alpha1().Copies("web").Create(withTarget(ctx), w.recordOf(claim, volumeWith(func(v *placementv1alpha1.CopyVolume) {
			v.Source.Attributes = map[string]string{"pool": "fast"}
		})), metav1.CreateOptions{})
		return err
	},
}

var secretAttributes = Attack{
	Name: "an attribute of a volume that no admin has declared is read by nobody in the logical cluster",
	Fence: func(ctx context.Context, w *World) error {
		read, err := w.attributes(ctx)
		if err == nil && strings.Contains(read, plantedSecret) {
			err = fmt.Errorf("a tenant reads %s", read)
		}
		return err
	},
	Control: func(ctx context.Context, w *World) (err error) {
		root := scope.WithCluster(ctx, scope.Root)
		declare := func(volumes string) error {
			_, err := w.admin.atoll.FleetV1alpha1().PhysicalClusters().Patch(root, Mallory, types.MergePatchType, []byte(volumes), metav1.PatchOptions{})
			return err
		}
		if err := declare(`{"spec":{"volumes":[{"storageClass":"disks","strategy":"Shared","backend":"san","driver":"disks.example.com","attributes":["password"]}]}}`); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, declare(`{"spec":{"volumes":null}}`)) }()
		return eventually(ctx, "where an admin has declared it", func() error {
			read, err := w.attributes(ctx)
			if err == nil && !strings.Contains(read, plantedSecret) {
				err = fmt.Errorf("a tenant reads %s", read)
			}
			return err
		})
	},
}

// attributes is what a tenant reads of a volume that has a password among its attributes.
func (w *World) attributes(ctx context.Context) (string, error) {
	ctx, claim, err := w.claimed(ctx)
	if err != nil {
		return "", err
	}
	who, err := w.tenant(ctx)
	if err != nil {
		return "", err
	}
	record, err := w.mallory.atoll.PlacementV1alpha1().Copies("web").Create(withTarget(ctx), w.recordOf(claim, volumeWith(func(v *placementv1alpha1.CopyVolume) {
		v.Source.Attributes = map[string]string{"password": plantedSecret}
	})), metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("recording a volume: %w", err)
	}
	read, err := who.atoll.PlacementV1alpha1().Copies("web").Get(ctx, record.Name, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("reading the record: %w", err)
	}
	return fmt.Sprintf("%+v, %v", read.Status.Volume.Source, read.Status.Volume.Reason), nil
}

// claimed makes a logical cluster as placed does, with a claim.
func (w *World) claimed(ctx context.Context) (context.Context, *corev1.PersistentVolumeClaim, error) {
	ctx, err := w.placed(ctx)
	if err != nil {
		return nil, nil, err
	}
	claim, err := w.admin.kube.CoreV1().PersistentVolumeClaims("web").Create(ctx, claimOf("data"), metav1.CreateOptions{})
	if err != nil {
		return nil, nil, fmt.Errorf("creating a claim: %w", err)
	}
	return ctx, claim, nil
}
