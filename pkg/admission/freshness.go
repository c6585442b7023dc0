package admission

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/klog/v2"

	"github.com/atoll-dev/atoll/pkg/admission/protect"
	"github.com/atoll-dev/atoll/pkg/stamp"
)

// freshen lets an update by a user pass that was made from what the object was
// before the control plane stamped it, and nothing else: nothing that the user could
// have meant has changed. Without it, whoever makes a LimitRange or a ConfigMap,
// then something that is placed, and then updates the first, would meet a conflict
// that no other cluster has.
//
// Both states are read from the database by resource version. If that one is
// compacted, the update conflicts.
func (p *plugin) freshen(ctx context.Context, r *request) {
	if !r.user() || r.old == nil || r.GetSubresource() != "" || !stamp.HasTargets(r.old) {
		return
	}
	sent, now := r.obj.GetResourceVersion(), r.old.GetResourceVersion()
	// A version that is still to come would be waited for.
	if order, err := resourceversion.CompareResourceVersion(sent, now); err != nil || order >= 0 {
		return
	}
	states := make([]*unstructured.Unstructured, 0, 2)
	for _, version := range []string{sent, now} {
		state, err := p.lookup.objectAt(ctx, r, version)
		if err != nil {
			klog.FromContext(ctx).V(4).Info("Reading what an update was made from", "resourceVersion", version, "err", err)
			return
		}
		states = append(states, state)
	}
	if protect.Restamped(states[0], states[1]) {
		r.obj.SetResourceVersion(now)
	}
}
