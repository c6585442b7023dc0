package simulation

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/test/simulation/kube"
)

// overriding is the policy of the admin that sets a label on copies.
var overriding = kube.Key{Resource: policies, Cluster: scope.Root, Name: "overriding"}

// override: an admin changes what goes down of Deployments, otherwise than before, or not
// any more.
func (w *World) override(h Happening) {
	if w.api.Find(overriding) != nil {
		if err := w.api.Delete(admin, overriding, kube.DeleteOptions{}); err != nil {
			w.say("%v", err)
		}
		if h.N%3 == 0 {
			return
		}
	}
	policy := &placementv1alpha1.ClusterPlacementPolicy{ObjectMeta: metav1.ObjectMeta{Name: overriding.Name, Annotations: map[string]string{"kcp.io/cluster": "root"}}}
	policy.Spec.Overrides = []placementv1alpha1.Override{{
		Objects: &placementv1alpha1.ObjectSelection{Kinds: []placementv1alpha1.ObjectKind{{Group: "apps", Kind: "Deployment"}}},
		Patch: []placementv1alpha1.PatchOperation{{
			Op: placementv1alpha1.PatchAdd, Path: "/metadata/labels/example.com~1overridden",
			Value: &placementv1alpha1.PatchValue{Raw: fmt.Appendf(nil, "%q", fmt.Sprint("v", h.N%7))},
		}},
	}}
	w.must(w.api.Create(admin, policies, policy))
}

// overridesConverged: a Deployment has, on a target that its unit is to be on, what the
// policy of the admin says now. That it is below is checked as all that goes down is.
func (w *World) overridesConverged(key kube.Key, obj *unstructured.Unstructured, target string, in []*placementv1alpha1.Placement) {
	if obj.GetKind() != "Deployment" {
		return
	}
	for _, p := range in {
		if !meta.IsStatusConditionTrue(p.Status.Conditions, placementv1alpha1.ConditionPolicySatisfied) && meta.FindStatusCondition(p.Status.Conditions, placementv1alpha1.ConditionPolicySatisfied) != nil {
			return // it is decided anew first, and what keeps it says so
		}
	}
	want, has := "none", "none"
	if policy, ok := w.api.Find(overriding).(*placementv1alpha1.ClusterPlacementPolicy); ok {
		want = string(policy.Spec.Overrides[0].Patch[0].Value.Raw)
	}
	if list := targetsOf(obj)[target].Overrides; len(list) > 0 {
		has = string(list[0].Patch[0].Value.Raw)
	}
	if has != want {
		w.fail(Converges, "%s is overridden on %s with %s, not %s: %s", key, target, has, want, movingOf(in))
	}
}
