package placement

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/generated/clientset/versioned"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/test/framework/server"
)

// anOrphan is what a syncer found of a Deployment in namespace web.
func anOrphan(target string, below types.UID, claim fleetv1alpha1.ClaimedObject) *fleetv1alpha1.Orphan {
	return &fleetv1alpha1.Orphan{
		ObjectMeta: metav1.ObjectMeta{Name: syncer.OrphanName(target, below)},
		Spec: fleetv1alpha1.OrphanSpec{PhysicalCluster: target, Claim: claim, Object: fleetv1alpha1.PhysicalObject{
			Group: "apps", Version: "v1", Resource: "deployments", Kind: "Deployment", Namespace: "some-web-1", Name: claim.Name, UID: below,
		}},
	}
}

func registerTainted(t *testing.T, name string) context.Context {
	t.Helper()
	register(t, name, nil, corev1.Taint{Key: "tests", Effect: corev1.TaintEffectNoSchedule})
	return scope.WithTarget(root(t), name)
}

func testOrphansAreListedByTheirSyncer(t *testing.T) {
	south := registerTainted(t, "south")
	orphans := shared.Atoll.FleetV1alpha1().Orphans()
	_, asSouth := syncerClients(t, "south")
	_, asWest := syncerClients(t, "west")
	own := asSouth.FleetV1alpha1().Orphans()
	claim := fleetv1alpha1.ClaimedObject{LogicalCluster: "nowhere", Namespace: "web", Name: "a", UID: "u"}

	_, err := orphans.Create(root(t), anOrphan("south", "b1", claim), metav1.CreateOptions{})
	forbidden(t, "an Orphan that an admin makes", err, "only the syncer of a physical cluster lists")
	_, err = own.Create(south, anOrphan("west", "b1", claim), metav1.CreateOptions{})
	forbidden(t, "an Orphan of another", err, "may not write an Orphan of west")
	ordered := anOrphan("south", "b1", claim)
	ordered.Spec.Order = fleetv1alpha1.OrphanRemove
	_, err = own.Create(south, ordered, metav1.CreateOptions{})
	forbidden(t, "an Orphan with an order", err, "may not give orders")
	bare := anOrphan("south", "b1", claim)
	bare.Spec.Claim.UID = ""
	if _, err = own.Create(south, bare, metav1.CreateOptions{}); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "spec.claim.uid") {
		t.Errorf("an Orphan that claims nothing: %v", err)
	}
	made, err := own.Create(south, anOrphan("south", "b1", claim), metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("an Orphan that it found: %v", err)
	}
	_, err = own.Patch(south, made.Name, types.MergePatchType, []byte(`{"spec":{"order":"Remove"}}`), metav1.PatchOptions{})
	if !apierrors.IsForbidden(err) {
		t.Errorf("an order of a syncer: %v", err)
	}
	_, err = orphans.Patch(root(t), made.Name, types.MergePatchType, []byte(`{"status":{"state":"Left"}}`), metav1.PatchOptions{}, "status")
	forbidden(t, "a status that an admin writes", err, "spec.order")
	_, err = orphans.Patch(root(t), made.Name, types.MergePatchType, []byte(`{"spec":{"claim":{"uid":"v"}}}`), metav1.PatchOptions{})
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "never changes, save for the order") {
		t.Errorf("another claim: %v", err)
	}
	_, err = orphans.Patch(root(t), made.Name, types.MergePatchType, []byte(`{"spec":{"order":"Burn"}}`), metav1.PatchOptions{})
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), `supported values: "Leave", "Remove", "Discard", "Adopt"`) {
		t.Errorf("an order that there is not: %v", err)
	}

	seen := func(atoll versioned.Interface, target string) (names []string) {
		list, err := atoll.FleetV1alpha1().Orphans().List(scope.WithTarget(scope.WithCluster(t.Context(), scope.Wildcard), target), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range list.Items {
			names = append(names, o.Name)
		}
		return names
	}
	if got := seen(asSouth, "south"); len(got) != 1 || got[0] != made.Name {
		t.Errorf("its own syncer sees %v", got)
	}
	if got := seen(asWest, "west"); len(got) != 0 {
		t.Errorf("another syncer sees %v", got)
	}
	if err := asWest.FleetV1alpha1().Orphans().Delete(scope.WithTarget(root(t), "west"), made.Name, metav1.DeleteOptions{}); err == nil {
		t.Error("another syncer removed it")
	}
	tenant := newCluster(t, "orphan-tenant")
	if list, err := orphans.List(tenant, metav1.ListOptions{}); err == nil && len(list.Items) > 0 {
		t.Error("a logical cluster sees it")
	}
	if err := own.Delete(south, made.Name, metav1.DeleteOptions{}); err != nil {
		t.Errorf("its own syncer removes it: %v", err)
	}
}

func testOrphansAreAskedForAndOrdered(t *testing.T) {
	north := registerTainted(t, "north")
	client := shared.Atoll.FleetV1alpha1()
	_, asNorth := syncerClients(t, "north")
	ctx := newCluster(t, "orphans")
	cluster, _ := scope.ClusterFrom(ctx)
	namespace(t, ctx, "web")
	a := create(t, ctx, "web", deployment("a"))
	uids := map[string]fleetv1alpha1.ClaimedObject{
		"exists":     {LogicalCluster: cluster.String(), Namespace: "web", Name: "a", UID: a.UID},
		"other":      {LogicalCluster: cluster.String(), Namespace: "web", Name: "a", UID: "before"},
		"gone":       {LogicalCluster: cluster.String(), Namespace: "web", Name: "b", UID: "before"},
		"no cluster": {LogicalCluster: "nowhere", Namespace: "web", Name: "a", UID: "before"},
	}
	names := map[string]string{}
	for below, claim := range uids {
		o, err := asNorth.FleetV1alpha1().Orphans().Create(north, anOrphan("north", types.UID(below), claim), metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		names[below] = o.Name
	}
	answered := func(below, want string) {
		t.Helper()
		server.Eventually(t, waitTimeout, "the answer about "+below, func() error {
			o, err := client.Orphans().Get(root(t), names[below], metav1.GetOptions{})
			if err != nil {
				return err
			}
			c := apimeta.FindStatusCondition(o.Status.Conditions, fleetv1alpha1.ConditionObjectExists)
			if c == nil || c.ObservedGeneration != o.Generation {
				return fmt.Errorf("no answer about generation %d: %v", o.Generation, c)
			}
			if got := string(o.Spec.Order) + " " + string(c.Status) + " " + c.Reason; got != want {
				return fmt.Errorf("got %q, want %q", got, want)
			}
			return nil
		})
	}
	answered("exists", " True Exists")
	answered("other", " False OtherUID")
	answered("gone", " False NotFound")
	answered("no cluster", " False NoLogicalCluster")

	order := func(name, spec string) error {
		_, err := client.PhysicalClusters().Patch(root(t), name, types.MergePatchType, []byte(`{"spec":{"orphans":`+spec+`}}`), metav1.PatchOptions{})
		return err
	}
	if err := order("north", `{"order":"Remove"}`); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "spec.orphans.foundBefore") {
		t.Errorf("an order for all, for ever: %v", err)
	}
	if _, err := client.Orphans().Patch(root(t), names["gone"], types.MergePatchType, []byte(`{"spec":{"order":"Leave"}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := order("north", `{"order":"Remove","foundBefore":"`+time.Now().Add(time.Minute).UTC().Format(time.RFC3339)+`"}`); err != nil {
		t.Fatal(err)
	}
	answered("exists", "Remove True Exists")
	answered("other", "Remove False OtherUID")
	answered("gone", "Leave False NotFound")
	answered("no cluster", "Remove False NoLogicalCluster")
	if err := order("north", `null`); err != nil {
		t.Fatal(err)
	}
	answered("other", "Remove False OtherUID") // an order given stays

	if err := client.PhysicalClusters().Delete(root(t), "north", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	server.Eventually(t, waitTimeout, "the end of the Orphans of a physical cluster that is not registered any more", func() error {
		for below, name := range names {
			if _, err := client.Orphans().Get(root(t), name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				return fmt.Errorf("%s is left (%v)", below, err)
			}
		}
		return nil
	})
}
