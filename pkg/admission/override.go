package admission

import (
	"context"
	"fmt"

	"k8s.io/apiserver/pkg/warning"

	"github.com/atoll-dev/atoll/pkg/boundary"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/override"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// warnOfOverrides tells a user which overrides of policies do not apply to an object, or
// make of it what its physical cluster does not permit: its syncer, which applies them, has
// the last word, and keeps what is there.
func (p *placing) warnOfOverrides(ctx context.Context, r *request, kind workload.Kind) {
	targets := stamp.TargetsOf(r.obj.GetAnnotations())
	for _, name := range targets.Names() {
		target := targets[name]
		if len(target.Overrides) == 0 || !target.Keeps() {
			continue
		}
		content, err := external(kind, r.GetObject())
		if err != nil {
			return // the validation of the kind says it better
		}
		changed, err := override.Apply(kind, content, target.Overrides)
		if err != nil {
			warning.AddWarning(ctx, "", fmt.Sprintf("nothing of this goes to %s: %v", name, err))
			continue
		}
		physical, ok := p.decider.lookup.physicalClusters.Get(controller.Request{Cluster: scope.Root, Name: name})
		if !ok {
			continue
		}
		if refusals := boundary.Refusals(boundary.Filter(kind, changed, boundary.Passage{Permits: override.Permits(physical.Permits(), target.Overrides), Asked: true, Notes: notesOf(content)})); len(refusals) > 0 {
			warning.AddWarning(ctx, "", fmt.Sprintf("nothing of this goes to %s: with its overrides, %s", name, notPermitted(name, refusals[0].String())))
		}
	}
}
