package simulation

import (
	"fmt"
	"testing"
)

// Worlds that once failed, and what they taught.
func TestWorldsThatOnceFailed(t *testing.T) {
	for seed, lesson := range map[uint64]string{
		5241: "a backup takes a Deployment away whose copy below has adopted a ReplicaSet: the syncer does not scale that for ever",
	} {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			if o := Run(Options{Seed: seed}); o.Broken != nil {
				t.Errorf("%s: %s (%s)", o.Broken.Invariant, o.Broken.Detail, lesson)
			}
		})
	}
}
