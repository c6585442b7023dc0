package syncer

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

func TestOnlyAnotherStatusFromBelowWaits(t *testing.T) {
	made := func(change func(*placementv1alpha1.Copy)) *placementv1alpha1.Copy {
		c := &placementv1alpha1.Copy{
			Spec:   placementv1alpha1.CopySpec{PhysicalCluster: "east"},
			Status: placementv1alpha1.CopyStatus{State: placementv1alpha1.CopySynced, PhysicalUID: "p", AppliedGeneration: 1},
		}
		change(c)
		return c
	}
	synced := made(func(*placementv1alpha1.Copy) {})
	for name, tc := range map[string]struct {
		before *placementv1alpha1.Copy
		change func(*placementv1alpha1.Copy)
		want   bool
	}{
		"the record itself": {nil, func(*placementv1alpha1.Copy) {}, false},
		"the first apply": {made(func(c *placementv1alpha1.Copy) { c.Status.State = placementv1alpha1.CopyPending }),
			func(*placementv1alpha1.Copy) {}, false},
		"a status":             {synced, func(c *placementv1alpha1.Copy) { c.Status.Observed = &runtime.RawExtension{Raw: []byte(`{}`)} }, true},
		"a generation seen":    {synced, func(c *placementv1alpha1.Copy) { c.Status.ObservedGeneration = 1 }, true},
		"a generation applied": {synced, func(c *placementv1alpha1.Copy) { c.Status.AppliedGeneration = 2 }, false},
		"a removal":            {synced, func(c *placementv1alpha1.Copy) { c.Status.State = placementv1alpha1.CopyRemoving }, false},
		"another copy below":   {synced, func(c *placementv1alpha1.Copy) { c.Status.PhysicalUID = "q" }, false},
		"a drift":              {synced, func(c *placementv1alpha1.Copy) { c.Status.Drifts++ }, false},
	} {
		if got := onlyReports(tc.before, made(tc.change)); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}

func TestWhatWasAppliedIsReportedWithWhatControllersBelowSayOfIt(t *testing.T) {
	applied := func(change func(*placementv1alpha1.CopyStatus)) *placementv1alpha1.Copy {
		c := &placementv1alpha1.Copy{
			Spec: placementv1alpha1.CopySpec{PhysicalCluster: "east"},
			Status: placementv1alpha1.CopyStatus{
				State: placementv1alpha1.CopySynced, PhysicalNamespace: "n", PhysicalUID: "p",
				AppliedGeneration: 2, ObservedGeneration: 1, PhysicalGeneration: 2,
			},
		}
		change(&c.Status)
		return c
	}
	nothing := func(*placementv1alpha1.CopyStatus) {}
	recorded := applied(func(s *placementv1alpha1.CopyStatus) {
		*s = placementv1alpha1.CopyStatus{State: placementv1alpha1.CopyPending, Reason: "New", PhysicalNamespace: "n"}
	})
	older := applied(func(s *placementv1alpha1.CopyStatus) { s.AppliedGeneration, s.PhysicalGeneration = 1, 1 })
	for name, tc := range map[string]struct {
		before *placementv1alpha1.Copy
		change func(*placementv1alpha1.CopyStatus)
		want   time.Duration
	}{
		"the record itself":                    {nil, nothing, 0},
		"a generation that nobody has seen":    {older, nothing, appliedDelay},
		"a generation that is seen already":    {older, func(s *placementv1alpha1.CopyStatus) { s.ObservedGeneration = 2 }, 0},
		"the first apply, which is seen":       {recorded, func(s *placementv1alpha1.CopyStatus) { s.ObservedGeneration = 2 }, 0},
		"the first apply, with a drift":        {recorded, func(s *placementv1alpha1.CopyStatus) { s.ObservedGeneration, s.Drifts = 0, 1 }, 0},
		"the first apply":                      {recorded, func(s *placementv1alpha1.CopyStatus) { s.ObservedGeneration = 0 }, appliedDelay},
		"the first apply, in a new namespace":  {recorded, func(s *placementv1alpha1.CopyStatus) { s.ObservedGeneration, s.PhysicalNamespace = 0, "m" }, 0},
		"a copy that was made again":           {older, func(s *placementv1alpha1.CopyStatus) { s.PhysicalUID = "q" }, 0},
		"a failure":                            {recorded, func(s *placementv1alpha1.CopyStatus) { s.State, s.ObservedGeneration = placementv1alpha1.CopyFailed, 0 }, 0},
		"a recovery from a failure":            {applied(func(s *placementv1alpha1.CopyStatus) { s.State = placementv1alpha1.CopyFailed }), nothing, 0},
		"a status of a generation that is old": {applied(nothing), func(s *placementv1alpha1.CopyStatus) { s.Observed = &runtime.RawExtension{Raw: []byte(`{}`)} }, reportInterval},
		"it leads to no pod any more":          {applied(nothing), func(s *placementv1alpha1.CopyStatus) { s.NoEndpoints = []string{"web"} }, reportInterval},
		"a drift, and it leads to no pod":      {applied(nothing), func(s *placementv1alpha1.CopyStatus) { s.NoEndpoints, s.Drifts = []string{"web"}, 1 }, 0},
	} {
		if got := reportDelay(tc.before, applied(tc.change)); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}

func TestTheNewsOfAnApplyWaitsFromTheApplyOn(t *testing.T) {
	now := time.Unix(1000, 0)
	before := &placementv1alpha1.Copy{Status: placementv1alpha1.CopyStatus{
		State: placementv1alpha1.CopySynced, PhysicalUID: "p", AppliedGeneration: 1, ObservedGeneration: 1, PhysicalGeneration: 1,
	}}
	applied := before.DeepCopy()
	applied.Status.AppliedGeneration, applied.Status.PhysicalGeneration = 2, 2
	seen := before.DeepCopy()
	seen.Status.Observed = &runtime.RawExtension{Raw: []byte(`{}`)}
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	for name, tc := range map[string]struct {
		now                 *placementv1alpha1.Copy
		reported, appliedAt time.Time
		want                time.Duration
	}{
		"an update long after the last write": {applied, ago(time.Hour), ago(10 * time.Millisecond), appliedDelay - 10*time.Millisecond},
		"an update that has waited":           {applied, ago(time.Hour), ago(2 * appliedDelay), 0},
		"one that was written since":          {applied, ago(0), ago(appliedDelay / 2), appliedDelay},
		"nothing is remembered":               {applied, time.Time{}, time.Time{}, 0},
		"only the apply is remembered":        {applied, time.Time{}, ago(0), appliedDelay},
		"a status does not wait for an apply": {seen, ago(time.Hour), ago(0), 0},
	} {
		p := planner{Input: Input{Copy: before, Now: now, Reported: tc.reported, AppliedAt: tc.appliedAt}}
		if got := p.reportedAgain(tc.now); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}
