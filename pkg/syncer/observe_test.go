package syncer

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/workload"
)

func observedKind(t testing.TB, obj *unstructured.Unstructured) workload.Kind {
	t.Helper()
	for _, k := range workload.Builtin().Observed() {
		if k.Kind == obj.GetKind() {
			return k
		}
	}
	t.Fatalf("%s is not mirrored", obj.GetKind())
	return workload.Kind{}
}

// only is the one action, or none: the zero Action.
func only(actions []Action) Action {
	if len(actions) == 0 {
		return Action{}
	}
	return actions[0]
}

// observationOf stands in a world in which the physical owner p-owner has the
// logical mirror l-owner.
func observationOf(t testing.TB, physical, logical string) Observation {
	t.Helper()
	s := Observation{
		Namespace: "web", Now: time.Unix(1<<40, 0),
		Owner: func(uid types.UID) (Owner, bool) {
			return Owner{Name: "owner", UID: "l-owner", Draining: uid == "p-draining"}, uid == "p-owner" || uid == "p-draining"
		},
		Refers: func(uid types.UID) (types.UID, bool) { return "l-" + uid, uid != "p-unknown" },
	}
	if physical != "" {
		s.Physical = parse(t, physical)
		s.Kind = observedKind(t, s.Physical)
	}
	if logical != "" {
		s.Logical = parse(t, logical)
		s.Kind = observedKind(t, s.Logical)
	}
	return s
}

// Each transcript has an object below and what is made of it in the logical
// cluster: the first write.
func TestWhatIsMirrored(t *testing.T) {
	transcripts(t, "observe", func(t *testing.T, files map[string]string) {
		s := observationOf(t, files["below"], "")
		r := only(Observe(s))
		if r.Verb != CreateUp {
			t.Fatalf("Observe says %s", r.Verb)
		}
		delete(r.Object.Object, "status")
		if diff := cmp.Diff(parse(t, files["logical"]).Object, r.Object.Object); diff != "" {
			t.Errorf("(-want +got)\n%s\nwhole:\n%s", diff, asYAML(t, r.Object.Object))
		}
		// Once it is there, and has what a server adds, nothing is left to write.
		created := r.Object.DeepCopy()
		created.SetUID("l1")
		created.SetGeneration(1)
		annotations := created.GetAnnotations()
		delete(annotations, "atoll.dev/uid")
		annotations["placement.atoll.dev/targets"] = `{"east":{"state":"Observed","uid":"p1"}}`
		created.SetAnnotations(annotations)
		if withStatus, differs := StatusUp(s, created); differs {
			created = withStatus
		}
		s.Logical = created
		if again := Observe(s); again != nil {
			t.Errorf("a second look says %+v", again)
		}
	})
}

// An old Service and its slices may still be there, or only the slices, when the next Service
// of that name is made: what they say is ready is so no more.
func TestEndpointsEndWithTheirService(t *testing.T) {
	const slice = "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: web-x, namespace: %s, uid: %s, labels: {kubernetes.io/service-name: web}, ownerReferences: [%s]}\naddressType: IPv4\nendpoints:\n- {addresses: [10.0.0.1], conditions: {ready: true, serving: true, terminating: false}}\n"
	owner := func(uid, controls string) string {
		return "{apiVersion: v1, kind: Service, name: web, uid: " + uid + ", controller: " + controls + "}"
	}
	for _, c := range []struct {
		name, owners string
		ready        bool
	}{
		{"its Service is there", owner("p-owner", "true"), true},
		{"traffic is withdrawn from its Service", owner("p-draining", "true"), false},
		{"its Service is not there any more", owner("p-gone", "true"), false},
		{"something that is not there owns it beside others", owner("p-gone", "false"), true},
		{"nobody owns it", "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			below, above := fmt.Sprintf(slice, "n", "p1", c.owners), fmt.Sprintf(slice, "web", "l1", "")
			s := observationOf(t, below, above)
			endpoints := list(s.desired(nil).Object, "endpoints")
			if len(endpoints) != 1 {
				t.Fatalf("there are %d endpoints", len(endpoints))
			}
			if ready := field(endpoints[0], "conditions")["ready"]; ready != c.ready {
				t.Errorf("ready: %v, want %v", ready, c.ready)
			}
			if r := Observe(s); !c.ready && (len(r) != 1 || r[0].Verb != UpdateUp) {
				t.Errorf("what is above and ready is left so: %+v", r)
			}
		})
	}
}

func TestTheResponseForEachRowOfTheTable(t *testing.T) {
	const (
		pod       = "apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: n, uid: p1, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: x, uid: p-owner, controller: true}]}\nspec: {nodeName: n1, containers: [{name: c, image: i}]}\n"
		unbound   = "apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: web, uid: l1, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: owner, uid: l-owner, controller: true}]}\nspec: {serviceAccountName: default, serviceAccount: default, containers: [{name: c, image: i}]}\n"
		bound     = "apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: web, uid: l1, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: owner, uid: l-owner, controller: true}]}\nspec: {nodeName: n1, serviceAccountName: default, serviceAccount: default, containers: [{name: c, image: i}]}\n"
		revision  = "apiVersion: apps/v1\nkind: ControllerRevision\nmetadata: {name: a, namespace: web, uid: l1, ownerReferences: [{apiVersion: apps/v1, kind: X, name: owner, uid: l-owner, controller: true}]}\n"
		set       = "apiVersion: apps/v1\nkind: ReplicaSet\nmetadata: {name: a, namespace: n, uid: p1, ownerReferences: [{apiVersion: apps/v1, kind: X, name: x, uid: p-owner, controller: true}]}\n"
		held      = "apiVersion: apps/v1\nkind: ReplicaSet\nmetadata: {name: a, namespace: web, uid: l1, finalizers: [placement.atoll.dev/copies], ownerReferences: [{apiVersion: apps/v1, kind: X, name: owner, uid: l-owner, controller: true}]}\n"
		claim     = "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data-db-0, namespace: n, uid: p1}\n"
		heldClaim = "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data-db-0, namespace: web, uid: l1, finalizers: [placement.atoll.dev/copies]}\n"
	)
	deleting := func(o *unstructured.Unstructured, grace int64) {
		o.SetDeletionTimestamp(ptr.To(metav1.Unix(1, 0)))
		o.SetDeletionGracePeriodSeconds(&grace)
	}
	made := func(pod *unstructured.Unstructured) { // as the copy of what is above
		pod.SetLabels(map[string]string{placementv1alpha1.ManagedByLabel: "cp"})
		pod.SetAnnotations(map[string]string{
			placementv1alpha1.LogicalClusterAnnotation: "shop", placementv1alpha1.NamespaceAnnotation: "web",
			placementv1alpha1.UIDAnnotation: "l1", ObjectAnnotation: "pods/a",
		})
	}
	for _, c := range []struct {
		name              string
		physical, logical string
		edit              func(*Observation)
		action            Verb
		grace             *int64
		propagation       metav1.DeletionPropagation
	}{
		{name: "gone on both sides"},
		{name: "gone below", logical: bound, action: DeleteUp, grace: ptr.To[int64](0)},
		{name: "new", physical: pod, action: CreateUp},
		{name: "new, and going already", physical: pod, edit: func(s *Observation) { deleting(s.Physical, 30) }},
		{name: "the mirror of its owner is not there", physical: pod, edit: func(s *Observation) {
			s.Owner = func(types.UID) (Owner, bool) { return Owner{}, false }
		}},
		{name: "the mirror of its owner is going", physical: pod, edit: func(s *Observation) {
			s.Owner = func(types.UID) (Owner, bool) { return Owner{Name: "owner", UID: "l-owner", Deleting: true}, true }
		}},
		{name: "new, and without a node yet", physical: strings.Replace(pod, "nodeName: n1, ", "", 1), edit: func(s *Observation) {
			s.Now = s.Physical.GetCreationTimestamp().Time
		}, action: Wait},
		{name: "let go by its owner", physical: pod, edit: func(s *Observation) { s.Physical.SetOwnerReferences(nil) }, action: CreateUp},
		{name: "made as a copy, and nobody's any more", physical: pod, edit: func(s *Observation) {
			s.Physical.SetOwnerReferences(nil)
			made(s.Physical)
		}},
		{name: "of a kind that nobody writes, and nobody's", physical: strings.ReplaceAll(set, "ReplicaSet", "ControllerRevision"), edit: func(s *Observation) {
			s.Physical.SetOwnerReferences(nil)
		}},
		{name: "let go above, by an owner that goes, and not yet below", physical: pod, logical: bound, edit: func(s *Observation) {
			s.Logical.SetOwnerReferences(nil)
			s.Owner = func(types.UID) (Owner, bool) { return Owner{Name: "owner", UID: "l-owner", Deleting: true}, true }
		}},
		{name: "its owner goes, and has not let it go", physical: pod, logical: bound, edit: func(s *Observation) {
			s.Owner = func(types.UID) (Owner, bool) { return Owner{Name: "owner", UID: "l-owner", Deleting: true}, true }
		}},
		{name: "adopted below", physical: pod, logical: bound, edit: func(s *Observation) { s.Logical.SetOwnerReferences(nil) }, action: UpdateUp},
		{name: "a claim, which outlives its set", physical: "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data-db-0, namespace: n, uid: p1}\n", action: CreateUp},
		{name: "as it shall be", physical: pod, logical: bound},
		{name: "debugged", physical: pod, logical: bound, edit: func(s *Observation) {
			addEphemeral(s.Logical, map[string]any{"name": "shell", "image": "busybox"})
		}, action: AddContainers},
		{name: "debugged with more than is permitted", physical: pod, logical: bound, edit: func(s *Observation) {
			addEphemeral(s.Logical, map[string]any{"name": "shell", "securityContext": map[string]any{"privileged": true}})
		}, action: WriteEvent},
		{name: "resized", physical: pod, logical: bound, edit: func(s *Observation) {
			list(field(s.Logical.Object, "spec"), "containers")[0]["resources"] = map[string]any{"requests": map[string]any{"cpu": "1"}}
		}, action: Resize},
		{name: "debugged below", physical: pod, logical: bound, edit: func(s *Observation) {
			addEphemeral(s.Physical, map[string]any{"name": "shell", "image": "busybox"})
		}},
		{name: "new, and debugged below", physical: pod, edit: func(s *Observation) {
			addEphemeral(s.Physical, map[string]any{"name": "shell", "image": "busybox"})
		}, action: CreateUp},
		{name: "bound meanwhile", physical: pod, logical: unbound, action: BindUp},
		{name: "another image", physical: pod, logical: bound, edit: func(s *Observation) {
			list(field(s.Physical.Object, "spec"), "containers")[0]["image"] = "j"
		}, action: UpdateUp},
		{name: "another status", physical: pod, logical: bound, edit: func(s *Observation) {
			s.Physical.Object["status"] = map[string]any{"phase": "Running"}
		}, action: UpdateUp},
		{name: "going below", physical: pod, logical: bound, edit: func(s *Observation) { deleting(s.Physical, 30) }, action: DeleteUp, grace: ptr.To[int64](30)},
		{name: "deleted by a user", physical: pod, logical: bound, edit: func(s *Observation) { deleting(s.Logical, 5) }, action: Delete, grace: ptr.To[int64](5)},
		{name: "deleted for want of an owner that we had wrong", physical: pod, logical: bound, edit: func(s *Observation) {
			deleting(s.Logical, 5)
			s.Owner = func(types.UID) (Owner, bool) { return Owner{Name: "owner", UID: "another"}, true }
		}, action: DeleteUp, grace: ptr.To[int64](0)},
		{name: "deleted with its owner", physical: pod, logical: bound, edit: func(s *Observation) {
			deleting(s.Logical, 5)
			s.Owner = func(types.UID) (Owner, bool) { return Owner{Name: "owner", UID: "l-owner", Deleting: true}, true }
		}, action: DeleteUp, grace: ptr.To[int64](0)},
		{name: "going on both sides", physical: pod, logical: bound, edit: func(s *Observation) {
			deleting(s.Physical, 5)
			deleting(s.Logical, 5)
		}},
		{name: "what is made again at once, deleted by a user", physical: strings.ReplaceAll(set, "ReplicaSet", "ControllerRevision"), logical: revision, edit: func(s *Observation) { deleting(s.Logical, 0) }, action: DeleteUp, grace: ptr.To[int64](0)},
		{name: "a ReplicaSet deleted by a user", physical: set, logical: held, edit: func(s *Observation) { deleting(s.Logical, 0) }, action: Delete, propagation: metav1.DeletePropagationBackground},
		{name: "a ReplicaSet deleted without its pods", physical: set, logical: held, edit: func(s *Observation) {
			deleting(s.Logical, 0)
			s.Logical.SetFinalizers(append(s.Logical.GetFinalizers(), metav1.FinalizerOrphanDependents))
		}, action: Delete, propagation: metav1.DeletePropagationOrphan},
		{name: "a claim deleted by a user", physical: claim, logical: heldClaim, edit: func(s *Observation) { deleting(s.Logical, 0) }, action: Delete, propagation: metav1.DeletePropagationBackground},
		{name: "a claim that is still in use", physical: claim, logical: heldClaim, edit: func(s *Observation) {
			deleting(s.Physical, 0)
			deleting(s.Logical, 0)
		}},
		{name: "a pod that was released, deleted by a user", physical: pod, logical: bound, edit: func(s *Observation) {
			deleting(s.Logical, 5)
			s.Physical.SetOwnerReferences(nil)
			s.Logical.SetOwnerReferences(nil)
		}, action: Delete, grace: ptr.To[int64](5)},
		{name: "a pod that was released, deleted with the owner that it had", physical: pod, logical: bound, edit: func(s *Observation) {
			deleting(s.Logical, 5)
			s.Physical.SetOwnerReferences(nil)
		}, action: DeleteUp, grace: ptr.To[int64](0)},
		{name: "a pod of a user that was adopted, released, and deleted with the owner that it had", physical: pod, logical: bound, edit: func(s *Observation) {
			deleting(s.Logical, 5)
			s.Physical.SetOwnerReferences(nil)
			made(s.Physical)
		}, action: Delete, grace: ptr.To[int64](5)},
		{name: "a ReplicaSet that is gone, as its user wished", logical: held, edit: func(s *Observation) { deleting(s.Logical, 0) }, action: Release},
		{name: "a ReplicaSet that is gone", logical: held, action: DeleteUp, grace: ptr.To[int64](0)},
		{name: "a ReplicaSet deleted with its owner", physical: set, logical: held, edit: func(s *Observation) {
			deleting(s.Logical, 0)
			s.Owner = func(types.UID) (Owner, bool) { return Owner{}, false }
		}, action: Release},
		{name: "a ReplicaSet deleted for want of an owner that we had wrong", physical: set, logical: held, edit: func(s *Observation) {
			deleting(s.Logical, 0)
			s.Owner = func(types.UID) (Owner, bool) { return Owner{Name: "owner", UID: "another"}, true }
		}, action: Release},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := observationOf(t, c.physical, c.logical)
			if c.edit != nil {
				c.edit(&s)
			}
			got := only(Observe(s))
			if got.Verb != c.action || !ptr.Equal(got.Grace, c.grace) || got.Propagation != c.propagation {
				t.Errorf("got %s with grace %v %s, want %s with %v %s", got.Verb, ptr.Deref(got.Grace, -1), got.Propagation, c.action, ptr.Deref(c.grace, -1), c.propagation)
			}
			if got.Verb == Release && slices.Contains(got.Object.GetFinalizers(), placementv1alpha1.CopiesFinalizer) {
				t.Error("what is let go is kept")
			}
		})
	}
}

func addEphemeral(pod *unstructured.Unstructured, container map[string]any) {
	setNested(pod.Object, []any{container}, "spec", "ephemeralContainers")
}
