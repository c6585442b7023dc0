package orphans

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/workload"
)

var noon = metav1.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func TestAnOrderForAllIsForThoseThatWereFoundInTimeAndHaveNone(t *testing.T) {
	remove := &fleetv1alpha1.OrphansOrder{Order: fleetv1alpha1.OrphanRemove, FoundBefore: noon}
	for name, c := range map[string]struct {
		all   *fleetv1alpha1.OrphansOrder
		found time.Duration
		own   fleetv1alpha1.OrphanOrder
		of    string
		want  fleetv1alpha1.OrphanOrder
	}{
		"found before":            {remove, -time.Hour, "", "east", "Remove"},
		"found just then":         {remove, 0, "", "east", "Remove"},
		"found later":             {remove, time.Second, "", "east", ""},
		"has an order of its own": {remove, -time.Hour, "Leave", "east", ""},
		"of another":              {remove, -time.Hour, "", "west", ""},
		"no order":                {nil, -time.Hour, "", "east", ""},
	} {
		t.Run(name, func(t *testing.T) {
			o := &fleetv1alpha1.Orphan{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(noon.Add(c.found))}}
			o.Spec.PhysicalCluster, o.Spec.Order = c.of, c.own
			pc := &fleetv1alpha1.PhysicalCluster{ObjectMeta: metav1.ObjectMeta{Name: "east"}, Spec: fleetv1alpha1.PhysicalClusterSpec{Orphans: c.all}}
			if got := orderFor(o, pc); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestOnlyAnotherUIDNoneOrNoLogicalClusterMeansGone(t *testing.T) {
	o := &fleetv1alpha1.Orphan{ObjectMeta: metav1.ObjectMeta{Generation: 3}}
	o.Spec.Claim.UID = "u"
	for name, c := range map[string]struct {
		answer answer
		want   string
	}{
		"it exists":          {answer{uid: "u"}, "True Exists"},
		"none":               {answer{}, "False NotFound"},
		"another":            {answer{uid: "v"}, "False OtherUID"},
		"no logical cluster": {answer{noCluster: true}, "False NoLogicalCluster"},
	} {
		got := exists(workload.Kind{}, o, c.answer)
		if got := string(got.Status) + " " + got.Reason; got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
		if got.ObservedGeneration != 3 || got.Message == "" {
			t.Errorf("%s: generation %d, message %q", name, got.ObservedGeneration, got.Message)
		}
	}
}
