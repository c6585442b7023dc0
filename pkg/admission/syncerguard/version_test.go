package syncerguard

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/skew"
)

func TestASyncerWritesNoVersionThatCannotBeShown(t *testing.T) {
	mine := skew.Current()
	for name, c := range map[string]struct {
		said *fleetv1alpha1.SyncerVersion
		ok   bool
	}{
		"none":             {nil, true},
		"that of a build":  {&fleetv1alpha1.SyncerVersion{Version: mine.Build, Revision: mine.Revision}, true},
		"a revision alone": {&fleetv1alpha1.SyncerVersion{Revision: 1}, true},
		"a later one":      {&fleetv1alpha1.SyncerVersion{Version: "v9.9.9", Revision: 1<<31 - 1}, true},
		"a negative one":   {&fleetv1alpha1.SyncerVersion{Version: "v1", Revision: -1}, false},
		"an escape":        {&fleetv1alpha1.SyncerVersion{Version: "v1\x1b[2J", Revision: 2}, false},
		"a long one":       {&fleetv1alpha1.SyncerVersion{Version: strings.Repeat("v", 1<<20), Revision: 2}, false},
	} {
		old := &fleetv1alpha1.PhysicalCluster{ObjectMeta: metav1.ObjectMeta{Name: "east"}}
		written := old.DeepCopy()
		written.Status.Syncer = c.said
		err := Check(Write{Target: "east", Cluster: "root", Verb: Update, Resource: physicalClusters, Subresource: "status", Name: "east", Object: written, Old: old})
		if (err == nil) != c.ok || err != nil && len(err.Error()) > 200 {
			t.Errorf("%s: %v", name, err)
		}
	}
}
