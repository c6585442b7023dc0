package pace

import (
	"iter"
	"maps"
	"slices"
	"time"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/placement"
)

// ReportTime is how long what a phase of a move makes may be missing in what the physical
// cluster reports: pods are made within seconds, and a report follows within ten more.
const ReportTime = time.Minute

// Taken is what moves take where they go, and what is there may not report yet, by physical
// cluster.
//
//	the phase began          counts
//	less than ReportTime ago what the unit requests, on each of To
//	longer ago               nothing: it is reported, or its pods cannot be made
//
// For some seconds it is counted twice: then a unit waits that might have moved, and is asked
// about again. What must not run twice is made in a later phase than the first.
func Taken(moves iter.Seq[*placementv1alpha1.Transition], now time.Time) []placementv1alpha1.AssumedRequests {
	taken := map[string]placementv1alpha1.AssumedRequests{}
	for t := range moves {
		if len(t.Requests) == 0 || now.Sub(t.Since.Time) >= ReportTime {
			continue
		}
		for _, name := range t.To {
			taken[name] = placementv1alpha1.AssumedRequests{PhysicalCluster: name, Requests: placement.Sum(taken[name].Requests, t.Requests)}
		}
	}
	var out []placementv1alpha1.AssumedRequests
	for _, name := range slices.Sorted(maps.Keys(taken)) {
		out = append(out, taken[name])
	}
	return out
}
