package syncerguard

import (
	"fmt"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/skew"
)

// checkVersion: what a syncer says of its version is shown to people.
func checkVersion(w Write) error {
	written, ok := w.Object.(*fleetv1alpha1.PhysicalCluster)
	if !ok || written.Status.Syncer == nil {
		return nil
	}
	if said := written.Status.Syncer; said.Revision < 0 || said.Version != "" && !skew.ValidBuild(said.Version) {
		return fmt.Errorf("what the syncer of %s writes into status.syncer is no version", w.Target)
	}
	return nil
}
