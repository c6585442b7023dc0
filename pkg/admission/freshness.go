package admission

import (
	"context"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/klog/v2"

	"github.com/atoll-dev/atoll/pkg/admission/protect"
	"github.com/atoll-dev/atoll/pkg/admission/stamp"
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
	if !older(sent, now) {
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

// older reports whether a is a resource version before b. One that is still to come
// would be waited for.
func older(a, b string) bool {
	first, err := strconv.ParseUint(a, 10, 64)
	if err != nil || first == 0 {
		return false
	}
	second, err := strconv.ParseUint(b, 10, 64)
	return err == nil && first < second
}
