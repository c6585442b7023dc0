package syncer

import (
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// Rule is what is known of a quota or of limits in a logical namespace. What they rule
// waits for them: a controller below makes its pods at once.
type Rule struct {
	Kind workload.Kind
	// Logical is the rule.
	Logical *unstructured.Unstructured
	// Copy is the record of its copy on the target; nil if there is none.
	Copy *placementv1alpha1.Copy
	// Physical is the copy; nil if it has not been seen.
	Physical *unstructured.Unstructured
	// Uncounted is since when something waits for a quota to be counted, as far as is
	// remembered; Now is the time.
	Uncounted, Now time.Time
}

// Standing is how far a Rule has come on a target.
type Standing string

const (
	// RuleHolds: nothing has to wait for it.
	RuleHolds Standing = "Holds"
	// RuleComes: its copy is on its way.
	RuleComes Standing = "Comes"
	// RuleCounts: the physical cluster is about to count, and lets everything in.
	RuleCounts Standing = "Counts"
)

// counting is how long what a quota rules waits for the physical cluster to count. One
// whose quota controller does not run never does.
const counting = 10 * time.Second

// Standing says how far the rule has come on a target, and since when something waits
// for it to be counted, to be remembered: zero if nothing does.
//
//	Logical                           Copy     Physical                  then
//	not to stay here, or going        any      any                       Holds
//	to stay here                      Failed   any                       Holds: that is as far as it comes
//	to stay here                      Synced   a quota, not counted yet  Counts, for a while; then Holds
//	to stay here                      Synced   else                      Holds
//	to stay here                      else     any                       Comes
func (r Rule) Standing(target string) (standing Standing, uncounted time.Time) {
	entry, ok := stamp.TargetsOf(r.Logical.GetAnnotations())[target]
	switch {
	case !ok || !entry.Keeps() || r.Logical.GetDeletionTimestamp() != nil:
		return RuleHolds, time.Time{}
	case r.Copy != nil && r.Copy.Status.State == placementv1alpha1.CopyFailed:
		return RuleHolds, time.Time{}
	case r.Copy == nil || r.Copy.Status.State != placementv1alpha1.CopySynced:
		return RuleComes, r.Uncounted
	case !r.Kind.InSum || enforced(r.Physical):
		return RuleHolds, time.Time{}
	}
	uncounted = r.Uncounted
	if uncounted.IsZero() {
		uncounted = r.Now
	}
	if r.Now.Sub(uncounted) > counting {
		return RuleHolds, uncounted
	}
	return RuleCounts, uncounted
}

// enforced says whether a ResourceQuota of a physical cluster limits anything yet.
// Admission there goes by status.hard, which the quota controller fills in once it
// has counted.
func enforced(quota *unstructured.Unstructured) bool {
	if quota == nil {
		return false
	}
	asked, _, _ := unstructured.NestedMap(quota.Object, "spec", "hard")
	enforced, _, _ := unstructured.NestedMap(quota.Object, "status", "hard")
	for name := range asked {
		if _, ok := enforced[name]; !ok {
			return false
		}
	}
	return true
}
