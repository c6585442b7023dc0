package syncer

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// carriedSettings is what the Manifests of these tests carry, and carriedPlace where that is.
const carriedSettings = `
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: monitoring}
data: {level: info}`

var carriedPlace = placementv1alpha1.CarriedObject{Version: "v1", Kind: "ConfigMap", Resource: "configmaps", Namespace: "monitoring", Name: "settings"}

// settings are carriedSettings.
func settings() map[string]any {
	return map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "settings", "namespace": "monitoring"},
		"data": map[string]any{"level": "info"},
	}
}

// carrying is an Input of a Manifest in a few words.
type carrying struct {
	// logical: "" absent, live, deleting, removing; with "!" the UID is new instead of old.
	logical string
	spec    string // besides the object
	// copy: "" none, or a state; it records the UID old, and what is carried.
	copy string
	// physical: "" none, old, new (the UID in our mark), another (a Manifest), elsewhere (a control plane),
	// managed (a copy of a logical cluster), unmarked.
	physical string
	// recorded says that the Copy records the UID of what is below.
	recorded bool
	gone     types.UID
	edit     func(*Input)
}

func (c carrying) input(t *testing.T) Input {
	t.Helper()
	in := Input{
		Kinds: workload.Builtin(), Target: target, ControlPlane: controlPlane, Ruled: true, Carried: &carriedPlace,
		Ref:       Ref{Kind: kinds["Manifest"], Cluster: scope.Root, Namespace: "web", Name: "thing"},
		Namespace: Namespace{State: NamespaceReady},
	}
	if c.gone != "" {
		in.Gone = []types.UID{c.gone}
	}
	if in.Logical = (situation{logical: c.logical}).logicalObject(in.Ref); in.Logical != nil {
		in.Logical.Object["spec"] = parseMap(t, "{"+c.spec+"}")
		setNested(in.Logical.Object, settings(), "spec", "object")
	}
	if c.copy != "" {
		in.Copy = &placementv1alpha1.Copy{
			Spec:   placementv1alpha1.CopySpec{PhysicalCluster: target, Object: placementv1alpha1.ObjectReference{UID: "old"}},
			Status: placementv1alpha1.CopyStatus{State: placementv1alpha1.CopyState(c.copy), Carried: carriedPlace},
		}
		if c.recorded {
			in.Copy.Status.PhysicalUID = "p1"
		}
	}
	in.Physical = c.below(in)
	if c.edit != nil {
		c.edit(&in)
	}
	return in
}

// below is what is on the physical cluster.
func (c carrying) below(in Input) *unstructured.Unstructured {
	ref, by, uid := in.Ref, controlPlane, types.UID("old")
	switch c.physical {
	case "":
		return nil
	case "new":
		uid = "new"
	case "another":
		ref.Name, uid = "other", "another"
	case "elsewhere":
		by = "other"
	}
	carrier := newObject(ref)
	carrier.SetUID(uid)
	carrier.Object["spec"] = map[string]any{"object": settings()}
	obj := below(transformed(carrier, Placing{Ref: ref, ControlPlane: by}))
	switch c.physical {
	case "unmarked":
		obj = &unstructured.Unstructured{Object: settings()}
	case "managed":
		obj = &unstructured.Unstructured{Object: settings()}
		obj.SetLabels(map[string]string{placementv1alpha1.ManagedByLabel: controlPlane})
	}
	obj.SetUID("p1")
	obj.SetResourceVersion("7")
	return obj
}

// notServed: the kind is defined below, but not served, or it cannot be asked.
func notServed(in *Input) {
	in.Carried, in.Physical, in.Failure = nil, nil, CarriedNotServed(carriedPlaceKind)
}

var carriedPlaceKind = kinds["ConfigMap"].GroupVersionKind

// notRecorded: the Copy does not say yet what it is below.
func notRecorded(in *Input) { in.Copy.Status.Carried = placementv1alpha1.CarriedObject{} }

func TestThePlanForManifests(t *testing.T) {
	const adopt, remove, keep = "adopt: true", "removal: Delete", "removal: Keep"
	for _, c := range []struct {
		name string
		c    carrying
		want string
	}{
		{"a record comes first", carrying{logical: "live"}, "WriteCopy Pending/New"},
		{"what it is below is recorded before it is made", carrying{logical: "live", copy: "Pending", edit: notRecorded}, "WriteCopy Pending/New"},
		{"nothing there", carrying{logical: "live", copy: "Pending"}, "Apply Absent"},
		{"nothing there, to adopt", carrying{logical: "live", spec: adopt, copy: "Pending"}, "Apply Absent"},
		{"ours", carrying{logical: "live", copy: "Synced", physical: "old", recorded: true}, "WriteCopy Synced"},
		{"ours, of which that is not recorded", carrying{logical: "live", copy: "Pending", physical: "old"}, "WriteCopy Synced"},
		{"ours, of which others took the mark", carrying{logical: "live", copy: "Synced", physical: "unmarked", recorded: true}, "Apply Changed to p1 at 7"},
		{"ours, which is gone below", carrying{logical: "live", copy: "Synced", recorded: true}, "WriteCopy Pending/New"},
		{"no mark", carrying{logical: "live", copy: "Pending", physical: "unmarked"}, "WriteCopy Failed/NotOurs"},
		{"no mark, to adopt", carrying{logical: "live", spec: adopt, copy: "Pending", physical: "unmarked"}, "Apply Changed to p1 at 7"},
		{"a copy of a logical cluster", carrying{logical: "live", copy: "Pending", physical: "managed"}, "WriteCopy Failed/NotOurs"},
		{"a copy of a logical cluster, to adopt", carrying{logical: "live", spec: adopt, copy: "Pending", physical: "managed"}, "WriteCopy Failed/NotOurs"},
		{"of another Manifest", carrying{logical: "live", copy: "Pending", physical: "another"}, "WriteCopy Failed/NotOurs"},
		{"of another Manifest, to adopt", carrying{logical: "live", spec: adopt, copy: "Pending", physical: "another"}, "WriteCopy Failed/NotOurs"},
		{"of another Manifest by now", carrying{logical: "live", copy: "Synced", physical: "another", recorded: true}, "WriteCopy Failed/NotOurs"},
		{"a copy of a logical cluster by now", carrying{logical: "live", copy: "Synced", physical: "managed", recorded: true}, "WriteCopy Failed/NotOurs"},
		{"of another control plane", carrying{logical: "live", copy: "Pending", physical: "elsewhere"}, "WriteCopy Failed/NotOurs"},
		{"of another control plane, to adopt", carrying{logical: "live", spec: adopt, copy: "Pending", physical: "elsewhere"}, "WriteCopy Failed/NotOurs"},
		{"of another control plane by now", carrying{logical: "live", copy: "Synced", physical: "elsewhere", recorded: true}, "WriteCopy Failed/NotOurs"},
		{"not looked at", carrying{logical: "live", copy: "Synced", recorded: true, edit: unseen}, "Look"},
		{"the kind is not served", carrying{logical: "live", copy: "Pending", edit: notServed}, "WriteCopy Failed/NotServed"},
		{"the kind is not served any more", carrying{logical: "live", copy: "Synced", recorded: true, edit: notServed}, "WriteCopy Failed/NotServed"},
		{"in another logical cluster than root", carrying{logical: "live", spec: adopt, copy: "Pending", edit: func(in *Input) { in.Ref.Cluster = "shop" }}, "WriteCopy Failed/NotPermitted"},

		{"deleted", carrying{logical: "deleting", spec: remove, copy: "Synced", physical: "old", recorded: true}, "WriteCopy Removing/Removing, Delete p1 Removing"},
		{"deleted, to keep", carrying{logical: "deleting", spec: keep, copy: "Synced", physical: "old", recorded: true}, "WriteCopy Removing/Removing, Unmark"},
		{"leaves", carrying{logical: "removing", spec: remove, copy: "Synced", physical: "old", recorded: true}, "WriteCopy Removing/Removing, Delete p1 Removing"},
		{"leaves, to keep", carrying{logical: "removing", spec: keep, copy: "Synced", physical: "old", recorded: true}, "WriteCopy Removing/Removing, Unmark"},
		{"deleted, and nothing is there", carrying{logical: "deleting", spec: remove, copy: "Removing"}, "WriteCopy Removed"},
		{"deleted, and unmarked", carrying{logical: "deleting", spec: keep, copy: "Removing", physical: "unmarked", recorded: true}, "WriteCopy Removed"},
		{"deleted, and of others", carrying{logical: "deleting", spec: remove, copy: "Failed", physical: "unmarked"}, "WriteCopy Removed"},
		{"deleted, and of others, before it adopted that", carrying{logical: "deleting", spec: remove + ", " + adopt, copy: "Failed", physical: "unmarked"}, "WriteCopy Removed"},
		{"leaves, and of others, before it adopted that", carrying{logical: "removing", spec: remove + ", " + adopt, copy: "Pending", physical: "unmarked"}, "WriteCopy Removed"},
		{"deleted, and of another Manifest", carrying{logical: "deleting", spec: remove + ", " + adopt, copy: "Failed", physical: "another"}, "WriteCopy Removed"},
		{"deleted, and of another Manifest by now", carrying{logical: "deleting", spec: remove, copy: "Synced", physical: "another", recorded: true}, "WriteCopy Removed"},
		{"kept, and of another Manifest by now", carrying{logical: "deleting", spec: keep, copy: "Removing", physical: "another", recorded: true}, "WriteCopy Removed"},
		{"deleted, and of another control plane by now", carrying{logical: "deleting", spec: remove, copy: "Synced", physical: "elsewhere", recorded: true}, "WriteCopy Removed"},
		{"deleted, and the kind is not served", carrying{logical: "deleting", spec: remove, copy: "Synced", recorded: true, edit: notServed}, "WriteCopy Removing/NotServed"},
		{"leaves, and the kind is not served", carrying{logical: "removing", spec: keep, copy: "Synced", recorded: true, edit: notServed}, "WriteCopy Removing/NotServed"},
		{"deleted, and nothing was ever made as the kind is not served", carrying{logical: "deleting", copy: "Failed",
			edit: func(in *Input) { notServed(in); notRecorded(in) }}, "WriteCopy Removed"},
		{"deleted, and the kind is gone", carrying{logical: "deleting", spec: remove, copy: "Synced", recorded: true,
			edit: func(in *Input) { notServed(in); in.NothingCarried = true }}, "WriteCopy Removed"},
		{"gone, and the kind is gone", carrying{copy: "Synced", recorded: true, gone: "old",
			edit: func(in *Input) { notServed(in); in.NothingCarried = true }}, "WriteCopy Removed"},
		{"deleted, and nobody said anything of what is there", carrying{logical: "deleting", spec: remove, copy: "Synced", recorded: true,
			edit: func(in *Input) { in.Carried = nil }}, "WriteCopy Removing/KindsNotKnown"},
		{"deleted, which the physical cluster refuses", carrying{logical: "deleting", spec: remove, copy: "Removing", physical: "old", recorded: true,
			edit: func(in *Input) { in.Failure = &Failure{Reason: "Forbidden"} }}, "WriteCopy Removing/Forbidden"},
		{"kept, which the physical cluster refuses", carrying{logical: "deleting", spec: keep, copy: "Removing", physical: "old", recorded: true,
			edit: func(in *Input) { in.Failure = &Failure{Reason: "Forbidden"} }}, "WriteCopy Removing/Forbidden"},
		{"acknowledged", carrying{logical: "deleting", spec: remove, copy: "Removed", physical: "old"}, ""},

		{"it was made again: whether the one before is gone says the server", carrying{logical: "live!", spec: remove, copy: "Synced", physical: "old", recorded: true}, "AskServer old OtherIncarnation"},
		{"made again: the one before ends, what is there stays", carrying{logical: "live!", spec: remove, copy: "Synced", physical: "old", recorded: true, gone: "old"}, "WriteCopy Removed"},
		{"made again: so it does without its mark", carrying{logical: "live!", spec: remove, copy: "Synced", physical: "unmarked", recorded: true, gone: "old"}, "WriteCopy Removed"},
		{"made again: what is there is its own", carrying{logical: "live", spec: remove, copy: "Pending", physical: "new"}, "Apply Changed to p1 at 7"},
		{"made again, and deleted", carrying{logical: "deleting", spec: remove, copy: "Pending", physical: "new"}, "WriteCopy Removing/Removing, Delete p1 Removing"},

		{"absent: whether it is gone says the server", carrying{copy: "Synced", physical: "old", recorded: true}, "AskServer old NotInView"},
		{"gone: what it wanted, nobody knows", carrying{copy: "Synced", physical: "old", recorded: true, gone: "old"}, "WriteCopy Removing/Gone, Unmark"},
		{"gone, and of another Manifest by now", carrying{copy: "Synced", physical: "another", recorded: true, gone: "old"}, "WriteCopy Removed"},
		{"gone, and unmarked", carrying{copy: "Removing", physical: "unmarked", recorded: true, gone: "old"}, "WriteCopy Removed"},
		{"gone, and the kind is not served", carrying{copy: "Synced", recorded: true, gone: "old", edit: notServed}, "WriteCopy Removing/NotServed"},
		{"gone with its record", carrying{physical: "old"}, "Report"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := describe(Plan(c.c.input(t))); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// All that can be, against what may be: what is not ours is not written, and deleted is only what a Manifest
// that goes, and says so, has made or adopted.
func TestNothingOfOthersIsWrittenForAManifest(t *testing.T) {
	each := func(visit func(carrying)) {
		for _, logical := range []string{"", "live", "live!", "deleting", "deleting!", "removing", "removing!", "untargeted"} {
			for _, spec := range []string{"removal: Delete", "removal: Delete, adopt: true", "removal: Keep", "removal: Keep, adopt: true"} {
				for _, copied := range []string{"", "Pending", "Synced", "Removed"} {
					for _, physical := range []string{"", "old", "new", "another", "elsewhere", "managed", "unmarked"} {
						for _, gone := range []types.UID{"", "old"} {
							for _, recorded := range []bool{false, true} {
								visit(carrying{logical: logical, spec: spec, copy: copied, physical: physical, gone: gone, recorded: recorded})
							}
						}
					}
				}
			}
		}
	}
	done := map[Verb]int{}
	each(func(c carrying) {
		in := c.input(t)
		word := strings.TrimSuffix(c.logical, "!")
		live, gone := word == "live", in.Gone != nil && (word == "" || word == "untargeted")
		goes := word == "deleting" || word == "removing" || gone
		made := c.physical == "old" || c.physical == "new" || c.physical == "unmarked" && c.copy != "" && c.recorded
		deletes := word != "" && strings.Contains(c.spec, "Delete") // what is not seen any more may have said Keep
		for _, a := range Plan(in) {
			done[a.Verb]++
			may := true
			switch a.Verb {
			case Apply:
				may = live && (c.physical == "" || made || strings.Contains(c.spec, "adopt") && c.physical == "unmarked")
			case Delete:
				may = goes && made && deletes
			case Unmark:
				may = goes && made && !deletes
			case AskServer, WriteCopy, Report:
			default:
				may = false
			}
			if !may {
				t.Errorf("%+v: %s", c, describe([]Action{a}))
			}
		}
	})
	for _, verb := range []Verb{Apply, Delete, Unmark, AskServer, WriteCopy, Report} {
		if done[verb] == 0 {
			t.Errorf("nothing led to %s", verb)
		}
	}
}

func TestWhatAManifestIsBelowIsRecordedWithTheCopy(t *testing.T) {
	for name, c := range map[string]carrying{
		"with the first record":       {logical: "live"},
		"when the kind is served now": {logical: "live", copy: "Failed", edit: notRecorded},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(carriedPlace, only(Plan(c.input(t))).Copy.Status.Carried); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestOurMarksAreTakenOffWhatIsKept(t *testing.T) {
	in := carrying{logical: "deleting", spec: "removal: Keep", copy: "Removing", physical: "old", recorded: true}.input(t)
	in.Physical.SetLabels(map[string]string{"app": "a", placementv1alpha1.CarriedByLabel: controlPlane})
	annotations := in.Physical.GetAnnotations()
	annotations["team"] = "monitoring"
	in.Physical.SetAnnotations(annotations)
	actions := Plan(in)
	patch := actions[len(actions)-1]
	want := map[string]any{"metadata": map[string]any{
		"uid": "p1", "resourceVersion": "7",
		"labels": map[string]any{placementv1alpha1.CarriedByLabel: nil},
		"annotations": map[string]any{
			placementv1alpha1.LogicalClusterAnnotation: nil, placementv1alpha1.NamespaceAnnotation: nil,
			placementv1alpha1.UIDAnnotation: nil, ObjectAnnotation: nil, AppliedAnnotation: nil, CarriedAnnotation: nil,
		},
	}}
	if diff := cmp.Diff(want, patch.Object.Object); patch.Verb != Unmark || patch.UID != "p1" || diff != "" {
		t.Errorf("%s of %q: %s", patch.Verb, patch.UID, diff)
	}
}

func TestANamespaceOfRootIsHeldForWhatIsInIt(t *testing.T) {
	root := func(in *Input) { in.Ref.Cluster = scope.Root; in.Physical = nil }
	for _, c := range []struct {
		name string
		s    situation
		want string
	}{
		{"a record", situation{logical: "live"}, "WriteCopy Pending/New"},
		{"and nothing is made of it", situation{logical: "live", copy: "Pending"}, "WriteCopy Synced"},
		{"whatever has its name there", situation{logical: "live", copy: "Pending", edit: func(in *Input) { in.Unseen = true }}, "WriteCopy Synced"},
		{"leaves while something is in it", situation{logical: "removing", copy: "Pending", contents: 1}, "WriteCopy Synced"},
		{"leaves", situation{logical: "removing", copy: "Synced"}, "WriteCopy Removed"},
		{"deleted", situation{logical: "deleting", copy: "Synced"}, "WriteCopy Removed"},
		{"deleted while something is in it", situation{logical: "deleting", copy: "Pending", contents: 1}, "WriteCopy Synced"},
		{"acknowledged", situation{logical: "deleting", copy: "Removed"}, ""},
		{"made again", situation{logical: "live!", copy: "Synced"}, "AskServer old OtherIncarnation"},
		{"made again while something is in the one before", situation{logical: "live!", copy: "Synced", gone: "old", contents: 1}, ""},
		{"made again: the one before ends", situation{logical: "live!", copy: "Synced", gone: "old"}, "WriteCopy Removed"},
		{"absent", situation{copy: "Synced"}, "AskServer old NotInView"},
		{"gone while something is in it", situation{copy: "Synced", gone: "old", contents: 1}, ""},
		{"gone", situation{copy: "Synced", gone: "old"}, "WriteCopy Removed"},
		{"gone with its record", situation{}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.s.kind = "Namespace"
			in := c.s.input()
			root(&in)
			if got := describe(Plan(in)); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// carrierOf is a Manifest of an object.
func carrierOf(t *testing.T, object string) *unstructured.Unstructured {
	t.Helper()
	m := newObject(Ref{Kind: kinds["Manifest"], Namespace: "web", Name: "thing"})
	m.SetUID("u1")
	m.SetGeneration(3)
	m.Object["spec"] = map[string]any{"object": parseMap(t, object)}
	return m
}

var carriedPlacing = Placing{Ref: Ref{Kind: kinds["Manifest"], Cluster: scope.Root, Namespace: "web", Name: "thing"}, ControlPlane: controlPlane}

func TestWhatIsCarriedGoesDownAsItIs(t *testing.T) {
	got, findings := Transform(carrierOf(t, `
apiVersion: apps/v1
kind: DaemonSet
metadata:
  name: agent
  namespace: monitoring
  uid: 0a1b
  resourceVersion: "7"
  generation: 4
  creationTimestamp: "2026-01-01T00:00:00Z"
  deletionTimestamp: "2026-01-01T00:00:00Z"
  selfLink: /a
  ownerReferences: [{apiVersion: v1, kind: ConfigMap, name: a, uid: b}]
  finalizers: [example.com/hold]
  managedFields: [{manager: kubectl, operation: Update}]
  labels: {app: agent, atoll.dev/carried-by: other, atoll.dev/managed-by: cp, placement.atoll.dev/x: x}
  annotations:
    team: monitoring
    atoll.dev/uid: forged
    atoll.dev/object: manifests.fleet.atoll.dev/other
    atoll.dev/logical-cluster: shop
    placement.atoll.dev/targets: '{"west":{}}'
    kcp.io/cluster: shop
    kubectl.kubernetes.io/last-applied-configuration: '{}'
spec:
  template:
    spec:
      hostNetwork: true
      serviceAccountName: agent
      containers: [{name: c, image: agent, securityContext: {privileged: true}}]
      volumes: [{name: root, hostPath: {path: /}}]
status: {numberReady: 3}`), carriedPlacing)
	applied := got.GetAnnotations()[AppliedAnnotation]
	want := parseMap(t, `
apiVersion: apps/v1
kind: DaemonSet
metadata:
  name: agent
  namespace: monitoring
  labels: {app: agent, atoll.dev/carried-by: cp}
  annotations:
    team: monitoring
    atoll.dev/uid: u1
    atoll.dev/object: manifests.fleet.atoll.dev/thing
    atoll.dev/carried: DaemonSet.apps/monitoring/agent
    atoll.dev/logical-cluster: root
    atoll.dev/namespace: web
    atoll.dev/applied: `+applied+`
spec:
  template:
    spec:
      hostNetwork: true
      serviceAccountName: agent
      containers: [{name: c, image: agent, securityContext: {privileged: true}}]
      volumes: [{name: root, hostPath: {path: /}}]`)
	if diff := cmp.Diff(want, got.Object); diff != "" || applied == "" || len(findings) > 0 {
		t.Errorf("findings %v, digest %q: %s", findings, applied, diff)
	}
	if mark, ok := MarkOf(kinds["Manifest"].GroupResource(), got); !ok || mark != markFor(controlPlane, carriedPlacing.Ref, "u1") {
		t.Errorf("the mark is %+v", mark)
	}
	// Operators pass on labels and annotations to what they make, often under the same name.
	child := got.DeepCopy()
	child.SetKind("Deployment")
	if mark, ok := MarkOf(kinds["Manifest"].GroupResource(), child); ok {
		t.Errorf("what it owns has its mark: %+v", mark)
	}
}

func TestWhatIsCarriedIsApplied(t *testing.T) {
	digestOf := func(m *unstructured.Unstructured) string {
		return transformed(m, carriedPlacing).GetAnnotations()[AppliedAnnotation]
	}
	base := digestOf(carrierOf(t, carriedSettings))
	for name, c := range map[string]struct {
		change  func(m *unstructured.Unstructured)
		applied bool
	}{
		"for other content": {func(m *unstructured.Unstructured) { setNested(m.Object, "debug", "spec", "object", "data", "level") }, true},
		"for another label of it": {func(m *unstructured.Unstructured) {
			setNested(m.Object, "b", "spec", "object", "metadata", "labels", "a")
		}, true},
		"for another version": {func(m *unstructured.Unstructured) { setNested(m.Object, "v2", "spec", "object", "apiVersion") }, true},
		"not for what a server writes into it": {func(m *unstructured.Unstructured) {
			setNested(m.Object, "9", "spec", "object", "metadata", "resourceVersion")
		}, false},
		"not for a status in it":          {func(m *unstructured.Unstructured) { setNested(m.Object, "b", "spec", "object", "status", "a") }, false},
		"not for a label of the Manifest": {func(m *unstructured.Unstructured) { m.SetLabels(map[string]string{"a": "b"}) }, false},
		"not for an annotation of it":     {func(m *unstructured.Unstructured) { m.SetAnnotations(map[string]string{"a": "b"}) }, false},
		"not for its generation":          {func(m *unstructured.Unstructured) { m.SetGeneration(4) }, false},
		"not for how it is removed":       {func(m *unstructured.Unstructured) { setNested(m.Object, "Keep", "spec", "removal") }, false},
	} {
		t.Run(name, func(t *testing.T) {
			m := carrierOf(t, carriedSettings)
			c.change(m)
			before := m.DeepCopy()
			if applied := digestOf(m) != base; applied != c.applied {
				t.Errorf("applied: %t", applied)
			}
			if diff := cmp.Diff(before.Object, m.Object); diff != "" {
				t.Errorf("the Manifest itself was changed: %s", diff)
			}
		})
	}
}

func TestWhetherTheKindIsInNamespacesSaysThePhysicalCluster(t *testing.T) {
	named := CarriedName(Input{Logical: carrierOf(t, carriedSettings)})
	if c, failure := Carried(named, "configmaps", true); failure != nil || c != carriedPlace {
		t.Errorf("got %+v, %v", c, failure)
	}
	if _, failure := Carried(named, "configmaps", false); failure == nil || failure.Reason != fleetv1alpha1.ReasonClusterScoped {
		t.Errorf("with a namespace: %v", failure)
	}
	named.Namespace = ""
	if _, failure := Carried(named, "configmaps", true); failure == nil || failure.Reason != fleetv1alpha1.ReasonNoNamespace {
		t.Errorf("without a namespace: %v", failure)
	}
}

// carriedCopy is the Copy of a Manifest of generation 3 on a physical cluster.
func carriedCopy(on string, change func(*placementv1alpha1.CopyStatus)) *placementv1alpha1.Copy {
	c := &placementv1alpha1.Copy{
		Spec: placementv1alpha1.CopySpec{PhysicalCluster: on, Object: placementv1alpha1.ObjectReference{UID: "u1"}},
		Status: placementv1alpha1.CopyStatus{
			State: placementv1alpha1.CopySynced, PhysicalUID: types.UID(on), AppliedGeneration: 3, ObservedGeneration: 3,
			Observed: &runtime.RawExtension{Raw: []byte(`{"conditions":[{"type":"Established","status":"True","reason":"A"}]}`)},
		},
	}
	if change != nil {
		change(&c.Status)
	}
	return c
}

func TestAManifestIsAppliedOnceAllTargetsHaveIt(t *testing.T) {
	type status = placementv1alpha1.CopyStatus
	failed := func(reason, message string) func(*status) {
		return func(s *status) { s.State, s.Reason, s.Message = placementv1alpha1.CopyFailed, reason, message }
	}
	observed := func(raw string) func(*status) {
		return func(s *status) { s.Observed = &runtime.RawExtension{Raw: []byte(raw)} }
	}
	east, both := `{"east":{}}`, `{"east":{},"west":{}}`
	for _, c := range []struct {
		name, targets string
		copies        []*placementv1alpha1.Copy
		want          string // the conditions
	}{
		{"nowhere", "", nil, ""},
		{"on its way", east, nil, "Applied=False/NotApplied east: it is on its way"},
		{"on one", east, []*placementv1alpha1.Copy{carriedCopy("east", nil)}, "Applied=True/Applied, Established=True/A"},
		{"on one of two", both, []*placementv1alpha1.Copy{carriedCopy("east", nil)}, "Applied=False/NotApplied west: it is on its way, Established=Unknown/NotReported west: not reported yet"},
		{"on both", both, []*placementv1alpha1.Copy{carriedCopy("east", nil), carriedCopy("west", nil)}, "Applied=True/Applied, Established=True/A"},
		{"not on the one that it leaves", `{"east":{},"west":{"state":"Removing"}}`, []*placementv1alpha1.Copy{carriedCopy("east", nil), carriedCopy("west", failed("NotOurs", "no"))},
			"Applied=True/Applied, Established=True/A"},
		{"refused by one", both, []*placementv1alpha1.Copy{carriedCopy("east", nil), carriedCopy("west", failed("NotOurs", "of others"))},
			"Applied=False/NotOurs west: NotOurs: of others, Established=True/A"},
		{"the worst of each type", both, []*placementv1alpha1.Copy{carriedCopy("east", nil), carriedCopy("west", observed(`{"conditions":[{"type":"Established","status":"False","reason":"B"}]}`))},
			"Applied=True/Applied, Established=False/B"},
		{"the former content on one", both, []*placementv1alpha1.Copy{carriedCopy("east", nil), carriedCopy("west", func(s *status) { s.AppliedGeneration = 2 })},
			"Applied=False/NotApplied west: it has what was before, Established=True/A"},
		{"a Copy of another incarnation", east, []*placementv1alpha1.Copy{func() *placementv1alpha1.Copy {
			c := carriedCopy("east", nil)
			c.Spec.Object.UID = "u0"
			return c
		}()}, "Applied=False/NotApplied east: it is on its way"},
		{"a condition of the object cannot say that it is applied", east, []*placementv1alpha1.Copy{carriedCopy("east", func(s *status) {
			failed("Forbidden", "")(s)
			observed(`{"conditions":[{"type":"Applied","status":"True"}]}`)(s)
		})}, "Applied=False/Forbidden east: Forbidden"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := carrierOf(t, carriedSettings)
			if c.targets != "" {
				m.SetAnnotations(map[string]string{placementv1alpha1.TargetsAnnotation: c.targets})
			}
			got, _ := Summarize(kinds["Manifest"], m, c.copies, someTime)
			if words := conditionWords(got); words != c.want {
				t.Errorf("got  %s\nwant %s", words, c.want)
			}
		})
	}
}

// conditionWords are conditions in a few words.
func conditionWords(status map[string]any) string {
	var words []string
	for _, c := range list(status, "conditions") {
		w := fmt.Sprintf("%s=%s", c["type"], c["status"])
		if c["reason"] != nil {
			w += fmt.Sprintf("/%s", c["reason"])
		}
		if c["message"] != nil {
			w += fmt.Sprintf(" %s", c["message"])
		}
		words = append(words, w)
	}
	return strings.Join(words, ", ")
}

func TestWhereASyncerIsFromBeforeManifestsNobodyKnowsWhetherOneIsApplied(t *testing.T) {
	const upgrade = ": its syncer does not know of Manifests, upgrade the syncer of physical cluster "
	old := func(names ...string) func(string) bool {
		return func(name string) bool { return slices.Contains(names, name) }
	}
	both := []*placementv1alpha1.Copy{carriedCopy("east", nil), carriedCopy("west", nil)}
	refused := []*placementv1alpha1.Copy{carriedCopy("east", func(s *placementv1alpha1.CopyStatus) { s.State, s.Reason = placementv1alpha1.CopyFailed, "NotOurs" })}
	for _, c := range []struct {
		name   string
		lacks  func(string) bool
		copies []*placementv1alpha1.Copy
		want   string
	}{
		{"none", old(), both, "Applied=True/Applied"},
		{"one, which has no Copy", old("west"), both[:1], "Applied=Unknown/SyncerTooOld west" + upgrade + "west"},
		{"one, which had a Copy from a newer one", old("west"), both, "Applied=Unknown/SyncerTooOld west" + upgrade + "west"},
		{"both", old("east", "west"), nil, "Applied=Unknown/SyncerTooOld east" + upgrade + "east; west" + upgrade + "west"},
		{"one, and the other one refuses it", old("west"), refused, "Applied=False/NotOurs west" + upgrade + "west; east: NotOurs"},
		{"one that it is not on", old("south"), both, "Applied=True/Applied"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := carrierOf(t, carriedSettings)
			m.SetAnnotations(map[string]string{placementv1alpha1.TargetsAnnotation: `{"east":{},"west":{}}`})
			status, _ := Summarize(kinds["Manifest"], m, c.copies, someTime)
			words, _, _ := strings.Cut(conditionWords(WithOldSyncers(m, status, c.copies, c.lacks)), ", Established")
			if words != c.want {
				t.Errorf("got  %s\nwant %s", words, c.want)
			}
		})
	}
}

func TestASyncerThatHasReportedSaysWhetherItKnowsOfManifests(t *testing.T) {
	for name, c := range map[string]struct {
		status fleetv1alpha1.PhysicalClusterStatus
		want   bool
	}{
		"it has not reported":     {fleetv1alpha1.PhysicalClusterStatus{}, false},
		"it is from before":       {fleetv1alpha1.PhysicalClusterStatus{Version: "v1.37.1", Features: []string{"Ordinals"}}, true},
		"this one":                {fleetv1alpha1.PhysicalClusterStatus{Version: "v1.37.1", Features: Features("v1.37.1")}, false},
		"this one, on an old one": {fleetv1alpha1.PhysicalClusterStatus{Version: "v1.20.0", Features: Features("v1.20.0")}, false},
	} {
		if got := LacksManifests(c.status); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestDuringWavesAManifestIsNotApplied(t *testing.T) {
	m := carrierOf(t, carriedSettings)
	m.SetAnnotations(map[string]string{
		placementv1alpha1.TargetsAnnotation: `{"east":{},"west":{}}`, placementv1alpha1.RolloutAnnotation: "2",
	})
	revision := func(name, of string) *placementv1alpha1.Copy {
		return carriedCopy(name, func(s *placementv1alpha1.CopyStatus) { s.Revision = of })
	}
	for west, want := range map[string]any{"1": "False", "2": "True"} {
		got := appliedCondition(m, []*placementv1alpha1.Copy{revision("east", "2"), revision("west", west)}, nil)
		if got["status"] != want {
			t.Errorf("with revision %s in the second wave: %v", west, got)
		}
	}
}

func TestWhatGoesUpOfACarriedObjectIsBounded(t *testing.T) {
	long := strings.Repeat("x", 4096)
	var all []any
	for i := range 40 {
		all = append(all, map[string]any{"type": fmt.Sprintf("C%d", i), "status": "True", "message": long, "data": long})
	}
	all = append([]any{
		map[string]any{"type": "NoStatus"}, map[string]any{"status": "True"}, map[string]any{"type": "Odd", "status": "Maybe"}, map[string]any{"type": 7, "status": "True"},
		map[string]any{"type": "Applied", "status": "True"},
	}, all...)
	physical := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{
		"observedGeneration": int64(4), "conditions": all, "secret": long, "addresses": []any{long},
	}}}
	got := rawOf(carriedStatus(physical))
	conditions := list(got, "conditions")
	if len(conditions) != maxCarriedConditions || conditions[0]["type"] != "C0" {
		t.Errorf("%d conditions go up: %v", len(conditions), conditions)
	}
	for _, c := range conditions {
		if message, _ := c["message"].(string); len(message) > maxMessage || c["data"] != nil {
			t.Errorf("of a condition goes up: %d bytes of message, %v", len(message), c["data"])
		}
	}
	if n, _ := integer(got, "observedGeneration"); n != 4 || len(got) != 2 {
		t.Errorf("besides go up: %d, %d fields", n, len(got))
	}
	for _, none := range []any{nil, map[string]any{}, map[string]any{"phase": "Active"}, "odd"} {
		if raw := carriedStatus(&unstructured.Unstructured{Object: map[string]any{"status": none}}); raw != nil {
			t.Errorf("of the status %v goes up: %s", none, raw.Raw)
		}
	}
}

func TestAConditionThatNoServerWouldStoreDoesNotGoUp(t *testing.T) {
	physical := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"conditions": []any{
		map[string]any{"type": "Ready", "status": "True", "lastTransitionTime": "yesterday"},
		map[string]any{"type": "Ready", "status": "False"},
		map[string]any{"type": "Synced", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"},
	}}}}
	want := []map[string]any{
		{"type": "Ready", "status": "True"},
		{"type": "Synced", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"},
	}
	got := list(rawOf(carriedStatus(physical)), "conditions")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	var status fleetv1alpha1.ManifestStatus
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(map[string]any{"conditions": []any{got[0], got[1]}}, &status); err != nil {
		t.Error(err)
	}
}

func TestTheMessageOfAManifestOnManyTargetsIsBounded(t *testing.T) {
	m := carrierOf(t, carriedSettings)
	var entries []string
	for i := range 200 {
		entries = append(entries, fmt.Sprintf(`"site-%d":{}`, i))
	}
	m.SetAnnotations(map[string]string{placementv1alpha1.TargetsAnnotation: "{" + strings.Join(entries, ",") + "}"})
	if message := appliedCondition(m, nil, nil)["message"].(string); len(message) > maxMessage || !strings.HasSuffix(message, "...") {
		t.Errorf("%d bytes: %s", len(message), message)
	}
}

func TestKindsAndNamespacesMakeRoomForOthers(t *testing.T) {
	for kind, want := range map[metav1.TypeMeta]bool{
		{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition"}: true,
		{APIVersion: "apiregistration.k8s.io/v1", Kind: "APIService"}:             true,
		{APIVersion: "v1", Kind: "Namespace"}:                                     true,
		{APIVersion: "v1", Kind: "ConfigMap"}:                                     false,
		{APIVersion: "example.com/v1", Kind: "Namespace"}:                         false,
	} {
		obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": kind.APIVersion, "kind": kind.Kind}}
		if got := BringsKinds(obj); got != want {
			t.Errorf("%v: %t", kind, got)
		}
	}
}

func TestWhoWaitsForAKindIsWokenByWhatBringsIt(t *testing.T) {
	definition := `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: widgets.example.com}}`
	for name, c := range map[string]struct {
		object    string
		old, woke bool
	}{
		"a definition came":    {definition, false, true},
		"a definition is gone": {definition, true, true},
		"a namespace came":     {`{apiVersion: v1, kind: Namespace, metadata: {name: monitoring}}`, false, true},
		"anything else came":   {carriedSettings, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			obj := transformed(carrierOf(t, c.object), carriedPlacing)
			obj.SetUID("p1")
			change := Change{Target: target, Kind: kinds["Manifest"], Placed: true, New: obj}
			if c.old {
				change.Old, change.New = obj, nil
			}
			mark := markFor(controlPlane, carriedPlacing.Ref, "u1")
			want := []Woken{{Wake: WakeObject, Mark: mark}, {Wake: WakeOrphans, UID: "p1"}}
			if !c.old {
				want = append(want, Woken{Wake: WakeOwned, UID: "p1"})
			}
			if c.woke {
				want = append(want, Woken{Wake: WakeCarried})
			}
			if diff := cmp.Diff(want, WakeBelow(change, func(*unstructured.Unstructured) bool { return true })); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// The mark is that of an object that may have any name and be of any kind.
func TestWhatAManifestCarriesIsNoCopyOfALogicalCluster(t *testing.T) {
	obj := transformed(carrierOf(t, carriedSettings), carriedPlacing)
	if mark, ok := MarkOf(kinds["ConfigMap"].GroupResource(), obj); ok {
		t.Errorf("it is taken for the copy of a ConfigMap: %+v", mark)
	}
	shop := Ref{Kind: kinds["ConfigMap"], Cluster: "shop", Namespace: "web", Name: "settings"}
	copied := transformed(&unstructured.Unstructured{Object: settings()}, Placing{Ref: shop, ControlPlane: controlPlane, Namespace: "shop-web-1"})
	if mark, ok := MarkOf(kinds["Manifest"].GroupResource(), copied); ok {
		t.Errorf("the copy of a ConfigMap is taken for what a Manifest carries: %+v", mark)
	}
}

func TestAKindIsWatchedAsLongAsAManifestOrARecordHasIt(t *testing.T) {
	gvk := func(group, version, kind string) schema.GroupVersionKind {
		return schema.GroupVersionKind{Group: group, Version: version, Kind: kind}
	}
	manifest := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"object": map[string]any{"apiVersion": "apps/v1", "kind": "DaemonSet"}}}}
	record := func(kind string, state placementv1alpha1.CopyState) *placementv1alpha1.Copy {
		return &placementv1alpha1.Copy{Status: placementv1alpha1.CopyStatus{State: state, Carried: placementv1alpha1.CarriedObject{Version: "v1", Kind: kind}}}
	}
	kinds := []schema.GroupVersionKind{gvk("apps", "v1", "DaemonSet"), gvk("apps", "v1beta1", "DaemonSet"), gvk("", "v1", "Secret"), gvk("", "v1", "Service"), gvk("example.com", "v1", "Widget")}
	got := NotCarried(kinds, []*unstructured.Unstructured{manifest, {Object: map[string]any{}}}, []*placementv1alpha1.Copy{
		record("Secret", placementv1alpha1.CopyRemoving), record("Service", placementv1alpha1.CopyRemoved), {},
	})
	if diff := cmp.Diff([]schema.GroupVersionKind{gvk("", "v1", "Service"), gvk("example.com", "v1", "Widget")}, got); diff != "" {
		t.Error(diff)
	}
}
