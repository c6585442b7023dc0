package transition

import (
	"fmt"
	"slices"
	"time"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

// settles are the addresses that nobody is sent to yet, as sentences, sorted, and for how long. A new one may lead
// to nothing although everything behind it is available: whoever passes on what comes there has to learn that, too.
//
//	a copy that publishes   a ready physical cluster   all has been available   the address
//	nothing yet has         that receives traffic has  for MinReadySeconds
//	no address              any                        any                      is missing, or there was none
//	an address              none                       any                      is used at once: no request has anywhere
//	                                                                            else to go
//	an address              the same                   any                      is used at once: it has the traffic
//	an address              another                    no                       is not used yet
//	an address              another                    yes                      is used
func (s State) settles(t *placementv1alpha1.Transition) (waits []string, left time.Duration) {
	left = time.Duration(t.MinReadySeconds) * time.Second
	if !s.AvailableSince.IsZero() {
		left -= s.Now.Sub(s.AvailableSince)
	}
	if left <= 0 {
		return nil, 0
	}
	for _, o := range s.Objects {
		if !o.getsAddress() || o.Logical.GetDeletionTimestamp() != nil {
			continue
		}
		targets := o.targets()
		var used []string
		for name, entry := range targets {
			if entry.Receives() && s.NotReady[name] == "" {
				used = append(used, addresses(observed(o.Copies[name]))...)
			}
		}
		for name, entry := range targets {
			if entry.State != placementv1alpha1.TargetStateStarting || len(used) == 0 {
				continue
			}
			for _, address := range addresses(observed(o.Copies[name])) {
				if !slices.Contains(used, address) {
					waits = append(waits, fmt.Sprintf("%s: %s of %s is published once all has been available there for %d s", o, address, name, t.MinReadySeconds))
				}
			}
		}
	}
	slices.Sort(waits)
	if len(waits) == 0 {
		return nil, 0
	}
	return waits, left
}
