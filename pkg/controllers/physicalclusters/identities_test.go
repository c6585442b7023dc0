package physicalclusters

import (
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	atollfake "github.com/atoll-dev/atoll/pkg/generated/clientset/versioned/fake"
)

func identified(name string, uid, identity types.UID) fleetv1alpha1.PhysicalCluster {
	pc := fleetv1alpha1.PhysicalCluster{ObjectMeta: metav1.ObjectMeta{Name: name, UID: uid}}
	pc.Status.Identity.UID = identity
	return pc
}

func TestAnIdentityBelongsToThePhysicalClusterThatHadItFirst(t *testing.T) {
	east, west := identified("east", "1", "a"), identified("west", "2", "a")
	moved, again := identified("east", "1", "b"), identified("east", "3", "a")
	for _, c := range []struct {
		name     string
		claims   map[string]string
		clusters []fleetv1alpha1.PhysicalCluster
		pc       fleetv1alpha1.PhysicalCluster
		want     map[string]string
		holder   string
	}{
		{"nobody's", nil, []fleetv1alpha1.PhysicalCluster{east}, east, map[string]string{"a": "1"}, "east"},
		{"its own", map[string]string{"a": "1"}, []fleetv1alpha1.PhysicalCluster{east}, east, map[string]string{"a": "1"}, "east"},
		{"another's", map[string]string{"a": "1"}, []fleetv1alpha1.PhysicalCluster{east, west}, west, map[string]string{"a": "1"}, "east"},
		{"of one that is gone", map[string]string{"a": "1"}, []fleetv1alpha1.PhysicalCluster{west}, west, map[string]string{"a": "2"}, "west"},
		{"of one that was registered anew", map[string]string{"a": "1"}, []fleetv1alpha1.PhysicalCluster{again, west}, west, map[string]string{"a": "2"}, "west"},
		{"of one that is another cluster now", map[string]string{"a": "1"}, []fleetv1alpha1.PhysicalCluster{moved, west}, west, map[string]string{"a": "2"}, "west"},
		{"it was another cluster", map[string]string{"a": "1"}, []fleetv1alpha1.PhysicalCluster{moved}, moved, map[string]string{"b": "1"}, "east"},
		{"two that are no same", map[string]string{"a": "2"}, []fleetv1alpha1.PhysicalCluster{moved, west}, moved, map[string]string{"a": "2", "b": "1"}, "east"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, holder := claim(c.claims, c.clusters, &c.pc)
			if diff := cmp.Diff(c.want, got); diff != "" || holder != c.holder {
				t.Errorf("it is that of %q, not %q; claims (-want +got):\n%s", holder, c.holder, diff)
			}
		})
	}
}

// Many servers accept many registrations of one cluster at the same moment: one gets
// it, all others learn whose it is.
func TestOfSeveralPhysicalClustersThatAreOneExactlyOneIsAccepted(t *testing.T) {
	var objects []runtime.Object
	names := []string{"a", "b", "c", "d", "e", "f"}
	for _, name := range names {
		pc := identified(name, types.UID(name), "same")
		objects = append(objects, &pc)
	}
	kube, client := kubefake.NewClientset(), atollfake.NewSimpleClientset(objects...)
	compareAndSwap(kube)
	results := make([]fleetv1alpha1.PhysicalClusterIdentity, len(names))
	var all sync.WaitGroup
	for i, name := range names {
		all.Go(func() {
			c := &Controller{Config: Config{Refusals: NewRefusals(clock.RealClock{}), Kube: kube, Client: client}}
			for {
				pc := identified(name, types.UID(name), "same")
				if err := c.accept(t.Context(), &pc); err == nil {
					results[i] = pc.Status.Identity
					return
				} else if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	winner := ""
	for i, r := range results {
		if r.Accepted == "same" {
			if winner != "" {
				t.Errorf("%s and %s are accepted", winner, names[i])
			}
			winner = names[i]
		}
	}
	for i, r := range results {
		if names[i] != winner && r.SameAs != winner {
			t.Errorf("%s is %+v, and %s is accepted", names[i], r, winner)
		}
	}
}

// Whose an identity is reads all PhysicalClusters: a syncer that calls itself another one has it done
// now and then, however often it is heard of.
func TestWhoseAnIdentityIsIsFoundOutNowAndThen(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000, 0)
	same, own := identified("west", "2", "a"), identified("west", "2", "a")
	same.Status.Identity.SameAs, own.Status.Identity.Accepted = "east", "a"
	changed := identified("west", "2", "b")
	changed.Status.Identity.Accepted = "a"
	for name, c := range map[string]struct {
		before *fleetv1alpha1.PhysicalCluster
		pc     fleetv1alpha1.PhysicalCluster
		want   time.Duration
	}{
		"never":                           {nil, same, 0},
		"it is another one's":             {&same, same, sameInterval},
		"it has become another cluster":   {&same, changed, otherInterval},
		"it was accepted, and is another": {&own, changed, otherInterval},
	} {
		var a answers
		if c.before != nil {
			a.note(c.before, now)
		}
		if got := a.left(&c.pc, now); got != c.want {
			t.Errorf("%s: it holds for %s, want %s", name, got, c.want)
		}
		if got := a.left(&c.pc, now.Add(c.want)); got != 0 {
			t.Errorf("%s: it holds for %s after that", name, got)
		}
		a.forget("west")
		if got := a.left(&c.pc, now); got != 0 {
			t.Errorf("%s: one that is gone is remembered for %s", name, got)
		}
	}
	for _, pc := range []fleetv1alpha1.PhysicalCluster{own, identified("west", "2", "")} {
		if asks(pc.Status.Identity) {
			t.Errorf("%+v is asked about", pc.Status.Identity)
		}
	}
	for _, pc := range []fleetv1alpha1.PhysicalCluster{same, changed, identified("west", "2", "a")} {
		if !asks(pc.Status.Identity) {
			t.Errorf("%+v is not asked about", pc.Status.Identity)
		}
	}
}

// compareAndSwap makes updates of ConfigMaps fail that do not name the present
// version, as a server does.
func compareAndSwap(client *kubefake.Clientset) {
	var mu sync.Mutex
	version := 0
	client.PrependReactor("update", "configmaps", func(a clienttesting.Action) (bool, runtime.Object, error) {
		mu.Lock()
		defer mu.Unlock()
		updated := a.(clienttesting.UpdateAction).GetObject().(*corev1.ConfigMap)
		now, err := client.Tracker().Get(a.GetResource(), updated.Namespace, updated.Name)
		if err != nil {
			return true, nil, err
		}
		if now.(*corev1.ConfigMap).ResourceVersion != updated.ResourceVersion {
			return true, nil, apierrors.NewConflict(schema.GroupResource{Resource: "configmaps"}, updated.Name, nil)
		}
		version++
		updated = updated.DeepCopy()
		updated.ResourceVersion = string(rune('0' + version))
		return true, updated, client.Tracker().Update(a.GetResource(), updated, updated.Namespace)
	})
}
