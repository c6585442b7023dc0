package connection

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/atoll-dev/atoll/pkg/syncer"
)

// Volumes and Claims are the resources of volumes on physical clusters.
var (
	Volumes = corev1.SchemeGroupVersion.WithResource("persistentvolumes")
	Claims  = corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims")
)

// LeftVolume asks the physical cluster for a volume that would go with a claim in a namespace: with the one of a name,
// or with any if that is empty. Nil says that there is none, as of the version of the list of claims. The API server
// is asked, and not a cache: that may not know yet that the physical cluster went back in time.
func (p Physical) LeftVolume(ctx context.Context, namespace, claim string) (pv *corev1.PersistentVolume, version string, err error) {
	o := metav1.ListOptions{}
	if claim != "" {
		o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, claim).String()
	}
	left, err := p.Dynamic.Resource(Claims).Namespace(namespace).List(ctx, o)
	if err != nil {
		return nil, "", fmt.Errorf("listing the claims that are left: %w", err)
	}
	for i := range left.Items {
		name, _, _ := unstructured.NestedString(left.Items[i].Object, "spec", "volumeName")
		if name == "" || claim != "" && left.Items[i].GetName() != claim {
			continue
		}
		obj, err := p.Dynamic.Resource(Volumes).Get(ctx, name, metav1.GetOptions{})
		switch {
		case syncer.IsGone(err, Volumes.GroupResource(), name):
			continue
		case err != nil:
			return nil, "", fmt.Errorf("reading the volume of a claim that is left: %w", err)
		}
		pv := &corev1.PersistentVolume{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, pv); err != nil {
			return nil, "", fmt.Errorf("reading a volume: %w", err)
		}
		if syncer.GoesAlong(pv, left.Items[i].GetUID()) {
			return pv, left.GetResourceVersion(), nil
		}
	}
	return nil, left.GetResourceVersion(), nil
}

// UpdateVolume sends a merge patch of a volume, upon the version in it.
func (p Physical) UpdateVolume(ctx context.Context, patch *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	body, err := json.Marshal(patch.Object)
	if err != nil {
		return nil, fmt.Errorf("encoding: %w", err)
	}
	return p.Dynamic.Resource(Volumes).Patch(ctx, patch.GetName(), types.MergePatchType, body, metav1.PatchOptions{FieldManager: syncer.FieldManager})
}
