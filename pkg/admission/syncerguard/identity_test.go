package syncerguard

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
)

func TestASyncerDoesNotConfirmForItselfWhichClusterItServes(t *testing.T) {
	type id = fleetv1alpha1.PhysicalClusterIdentity
	one, two := metav1.NewTime(time.Unix(1, 0)), metav1.NewTime(time.Unix(2, 0))
	for _, c := range []struct {
		name      string
		old, new  id
		confirmed types.UID
		emptied   *metav1.Time
		ok        bool
	}{
		{"nothing", id{}, id{}, "", nil, true},
		{"the first contact", id{}, id{UID: "a"}, "", nil, true},
		{"the first contact, as confirmed", id{}, id{UID: "a"}, "a", nil, true},
		{"the first contact, not as confirmed", id{}, id{UID: "a"}, "b", nil, false},
		{"the same", id{UID: "a", Accepted: "a"}, id{UID: "a", Accepted: "a", Populated: true}, "", nil, true},
		{"the same, while another is confirmed", id{UID: "a"}, id{UID: "a", Populated: true}, "b", nil, true},
		{"another", id{UID: "a"}, id{UID: "b"}, "", nil, false},
		{"another than the confirmed one", id{UID: "a"}, id{UID: "b"}, "a", nil, false},
		{"another that is confirmed", id{UID: "a", Accepted: "a", SameAs: "west"}, id{UID: "b"}, "b", nil, true},
		{"another that is confirmed, with what was accepted before", id{UID: "a", Accepted: "a"}, id{UID: "b", Accepted: "a"}, "b", nil, false},
		{"none any more", id{UID: "a"}, id{}, "", nil, false},
		{"none any more, to meet another for the first time", id{UID: "a", Accepted: "a"}, id{}, "b", nil, false},
		{"accepted by itself", id{UID: "a"}, id{UID: "a", Accepted: "a"}, "", nil, false},
		{"accepted by itself at once", id{}, id{UID: "a", Accepted: "a"}, "", nil, false},
		{"no more the same as another", id{UID: "a", SameAs: "west"}, id{UID: "a"}, "", nil, false},
		{"emptied", id{UID: "a"}, id{UID: "a", Emptied: &one}, "", nil, true},
		{"emptied, after another time was confirmed", id{UID: "a"}, id{UID: "a", Emptied: &two}, "", &one, true},
		{"emptied, at a time that was confirmed", id{UID: "a"}, id{UID: "a", Emptied: &one}, "", &one, false},
		{"emptied, moved to a time that was confirmed", id{UID: "a", Emptied: &two}, id{UID: "a", Emptied: &one}, "", &one, false},
		{"emptied still, and confirmed", id{UID: "a", Emptied: &one}, id{UID: "a", Emptied: &one, Populated: true}, "", &one, true},
		{"filled again", id{UID: "a", Emptied: &one}, id{UID: "a"}, "", nil, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			pc := func(identity id) *fleetv1alpha1.PhysicalCluster {
				pc := &fleetv1alpha1.PhysicalCluster{ObjectMeta: metav1.ObjectMeta{Name: "east"}}
				pc.Spec.Identity, pc.Spec.Emptied, pc.Status.Identity = c.confirmed, c.emptied, identity
				return pc
			}
			w := Write{Target: "east", Cluster: "root", Verb: Update, Resource: physicalClusters, Subresource: "status", Name: "east", Object: pc(c.new), Old: pc(c.old)}
			if err := Check(w); (err == nil) != c.ok {
				t.Errorf("Check = %v", err)
			}
			w.Subresource = ""
			if Check(w) == nil {
				t.Error("it may write the spec")
			}
		})
	}
}
