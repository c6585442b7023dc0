package edit

import (
	"slices"
	"testing"

	"github.com/atoll-dev/atoll/pkg/workload"
)

func TestWhatASyncerNeedsHasEveryKindThatItWrites(t *testing.T) {
	questions := Questions(Needs(workload.Builtin()))
	for _, kind := range workload.Builtin().All() {
		for _, verb := range writing {
			if !slices.Contains(questions, Question(verb, kind.Group, kind.Resource)) {
				t.Errorf("%s %s is not asked for", verb, kind.GroupResource())
			}
		}
	}
	if !slices.Contains(questions, Question("patch", "batch", "cronjobs/status")) {
		t.Error("the last runs of CronJobs are not asked for")
	}
	status := Question("patch", "", "pods/status")
	if status.Resource != "pods" || status.Subresource != "status" || !slices.Contains(questions, status) {
		t.Errorf("the conditions of pods: %+v", status)
	}
}
