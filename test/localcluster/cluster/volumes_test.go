package cluster

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
)

func TestAClaimGetsAVolumeOnlyIfNoneFits(t *testing.T) {
	claim := &corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{
		StorageClassName: ptr.To("fast"),
		AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources:        corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("2Gi")}},
	}}
	claim.UID = "u1"
	volume := func(change func(*corev1.PersistentVolume)) *corev1.PersistentVolume {
		v := &corev1.PersistentVolume{
			Spec: corev1.PersistentVolumeSpec{
				StorageClassName: "fast",
				Capacity:         corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("3Gi")},
				AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce, corev1.ReadOnlyMany},
			},
			Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeAvailable},
		}
		change(v)
		return v
	}
	for name, tc := range map[string]struct {
		change func(*corev1.PersistentVolume)
		want   bool
	}{
		"one that fits":            {func(*corev1.PersistentVolume) {}, true},
		"too small":                {func(v *corev1.PersistentVolume) { v.Spec.Capacity[corev1.ResourceStorage] = resource.MustParse("1Gi") }, false},
		"another class":            {func(v *corev1.PersistentVolume) { v.Spec.StorageClassName = "slow" }, false},
		"another access mode":      {func(v *corev1.PersistentVolume) { v.Spec.AccessModes = v.Spec.AccessModes[1:] }, false},
		"not available":            {func(v *corev1.PersistentVolume) { v.Status.Phase = corev1.VolumeReleased }, false},
		"made for another claim":   {func(v *corev1.PersistentVolume) { v.Spec.ClaimRef = &corev1.ObjectReference{UID: "u2"} }, false},
		"made for it, still bound": {func(v *corev1.PersistentVolume) { v.Spec.ClaimRef = &corev1.ObjectReference{UID: "u1"} }, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := anyFits(claim, []*corev1.PersistentVolume{volume(tc.change)}); got != tc.want {
				t.Errorf("anyFits is %v, want %v", got, tc.want)
			}
		})
	}
}

func TestAClaimOfAnotherDriverIsLeftToIt(t *testing.T) {
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	for name, driver := range map[string]string{"standard": provisioner, "static": noProvisioner, "disks": "disks.example.com"} {
		if err := indexer.Add(&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: driver}); err != nil {
			t.Fatal(err)
		}
	}
	v := volumes{classes: storagelisters.NewStorageClassLister(indexer)}
	for class, want := range map[string]bool{"standard": false, "static": false, "unknown": false, "": false, "disks": true} {
		if got := v.ofOther(&corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: &class}}); got != want {
			t.Errorf("class %q: of another driver %v, want %v", class, got, want)
		}
	}
}
