package cluster

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
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
