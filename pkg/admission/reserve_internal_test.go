package admission

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	clienttesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/generated/clientset/versioned/fake"
	"github.com/atoll-dev/atoll/pkg/placement"
	"github.com/atoll-dev/atoll/pkg/placement/reserve"
)

// quiet is a server without placements, at a version.
type quiet string

func (q quiet) List(context.Context, metav1.ListOptions) (*placementv1alpha1.PlacementList, error) {
	return &placementv1alpha1.PlacementList{ListMeta: metav1.ListMeta{ResourceVersion: string(q)}}, nil
}

func (q quiet) Watch(context.Context, metav1.ListOptions) (watch.Interface, error) {
	return watch.NewRaceFreeFake(), nil
}

// ours is what the server answers to each write of a placement: at version 10.
func ours(client *fake.Clientset) {
	client.PrependReactor("*", "placements", func(a clienttesting.Action) (bool, runtime.Object, error) {
		var p *placementv1alpha1.Placement
		switch a := a.(type) {
		case clienttesting.CreateAction: // an update is one, too
			p = a.GetObject().(*placementv1alpha1.Placement).DeepCopy()
		default:
			return true, nil, nil
		}
		p.UID, p.ResourceVersion = "p", "10"
		return true, p, nil
	})
}

func another(version string, on string) *placementv1alpha1.Placement {
	p := &placementv1alpha1.Placement{ObjectMeta: metav1.ObjectMeta{
		Name: placementv1alpha1.NamespaceUnit, ResourceVersion: version,
		OwnerReferences: []metav1.OwnerReference{{Kind: "Namespace", UID: types.UID("another"), Controller: ptr.To(true)}},
	}}
	p.Spec.Reservation = reserve.On([]string{on}, corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}, time.Unix(1000, 0))
	return p
}

func TestWhatAUnitTakesIsLookedAtOnceItIsStored(t *testing.T) {
	t.Parallel()
	one := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
	for name, test := range map[string]struct {
		unlimited bool
		stored    *placementv1alpha1.Placement // of the unit, before
		other     *placementv1alpha1.Placement
		deaf      bool
		writes    []string
		late      string // why
	}{
		"nothing bounds it":                 {unlimited: true},
		"there is room":                     {writes: []string{"create"}},
		"others took it before":             {other: another("9", "east"), writes: []string{"create", "delete"}, late: placement.ReasonInsufficient},
		"others came later":                 {other: another("11", "east"), writes: []string{"create"}},
		"others took what is elsewhere":     {other: another("9", "west"), writes: []string{"create"}},
		"it waited, and there is room":      {stored: &placementv1alpha1.Placement{ObjectMeta: metav1.ObjectMeta{UID: "p"}}, writes: []string{"update"}},
		"it waited, and others took it":     {stored: &placementv1alpha1.Placement{ObjectMeta: metav1.ObjectMeta{UID: "p"}}, other: another("9", "east"), writes: []string{"update", "update"}, late: placement.ReasonInsufficient},
		"nobody knows what others reserved": {deaf: true, writes: []string{"create", "delete"}, late: placement.ReasonUnheard},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
			informer := controller.NewInformer("placements", &placementv1alpha1.Placement{}, controller.Lists(quiet("20")), controller.InformerOptions[*placementv1alpha1.Placement]{})
			client := fake.NewSimpleClientset()
			ours(client)
			d := &decider{client: client, assumptions: newAssumptions(clock, placement.Decide, informer)}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if test.deaf {
				cancel() // what follows is done all the same
			} else {
				ended := make(chan struct{})
				go func() { defer close(ended); informer.Run(ctx) }()
				defer func() { cancel(); <-ended }()
				if err := informer.WaitForSync(ctx); err != nil {
					t.Fatal(err)
				}
			}
			if test.other != nil {
				d.assumptions.ledger.Observe(nil, test.other, clock.Now(), true)
			}
			pc := &fleetv1alpha1.PhysicalCluster{ObjectMeta: metav1.ObjectMeta{Name: "east"}}
			pc.Status.Conditions = []metav1.Condition{{Type: fleetv1alpha1.ConditionReady, Status: metav1.ConditionTrue}}
			if !test.unlimited {
				pc.Status.Allocatable = one
			}
			s := placement.Snapshot{PhysicalClusters: []placement.PhysicalCluster{{PhysicalCluster: pc}}}
			u := placement.Unit{Needs: placement.Needs{Requests: one}}
			q := question{cluster: "shop", namespace: &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "ns"}}, unit: placementv1alpha1.NamespaceUnit, reserved: &metav1.MicroTime{}}
			decision := placement.Decide(s, u)
			u.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")} // of which one physical cluster gets a half
			r := reserve.New(u, decision, clock.Now())
			if test.stored == nil {
				test.stored = &placementv1alpha1.Placement{}
			}
			p, err := d.reserve(ctx, q, test.stored, s, u, decision, r)
			var writes []string
			for _, a := range client.Actions() {
				writes = append(writes, a.GetVerb())
			}
			if diff := cmp.Diff(test.writes, writes); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
			late, isTooLate, final := isLate(err)
			switch {
			case test.late == "" && err != nil:
				t.Fatal(err)
			case test.late == "":
				if diff := cmp.Diff(r, p.Spec.Reservation); diff != "" {
					t.Error(diff)
				}
				return
			case !isTooLate || final != test.deaf:
				t.Fatalf("final %t: %v", final, err)
			}
			without := late.without()
			if without.Possible() || len(without.Rejected) != 1 || without.Rejected[0].Reason != test.late {
				t.Errorf("what is left of the decision: %+v", without)
			}
			if late.stored.Spec.Reservation != nil {
				t.Errorf("the reservation stays: %+v", late.stored.Spec)
			}
		})
	}
}

func TestWhoFindsAReservationWaitsForTheDecision(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	r := &placementv1alpha1.Reservation{At: metav1.NewMicroTime(now)}
	for name, test := range map[string]struct {
		spec  placementv1alpha1.PlacementSpec
		q     question
		after time.Duration
		want  bool
	}{
		"nobody has reserved":      {},
		"another has":              {spec: placementv1alpha1.PlacementSpec{Reservation: r}, want: true},
		"another has died":         {spec: placementv1alpha1.PlacementSpec{Reservation: r}, after: decideTimeout},
		"who asks has":             {spec: placementv1alpha1.PlacementSpec{Reservation: r}, q: question{reserved: &r.At}},
		"it is decided":            {spec: placementv1alpha1.PlacementSpec{Reservation: r, Decision: &placementv1alpha1.Decision{}}},
		"a scheduler has bound it": {spec: placementv1alpha1.PlacementSpec{Reservation: r, Bound: &placementv1alpha1.Bound{}}},
		"a dry run waits for none": {spec: placementv1alpha1.PlacementSpec{Reservation: r}, q: question{dryRun: true}},
	} {
		d := &decider{assumptions: &assumptions{clock: clocktesting.NewFakePassiveClock(now.Add(test.after))}}
		if got := d.isBeingDecided(test.q, &placementv1alpha1.Placement{Spec: test.spec}); got != test.want {
			t.Errorf("%s: waits %t", name, got)
		}
	}
}
