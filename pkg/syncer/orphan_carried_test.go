package syncer

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// orphaned is what a Manifest carried, which nothing above knows.
func orphaned(t *testing.T, object string) *unstructured.Unstructured {
	t.Helper()
	obj := transformed(carrierOf(t, object), carriedPlacing)
	obj.SetUID("p1")
	return obj
}

func TestWhatAManifestCarriedIsListedByItsOwnNameAndClaimsTheManifest(t *testing.T) {
	o, ok := NewCarriedOrphan(target, controlPlane, kinds["Manifest"], "configmaps", orphaned(t, carriedSettings))
	want := fleetv1alpha1.OrphanSpec{
		PhysicalCluster: target,
		Object:          fleetv1alpha1.PhysicalObject{Version: "v1", Resource: "configmaps", Kind: "ConfigMap", Namespace: "monitoring", Name: "settings", UID: "p1"},
		Claim:           fleetv1alpha1.ClaimedObject{LogicalCluster: "root", Namespace: "web", Name: "thing", UID: "u1"},
	}
	if !ok {
		t.Fatal("it is not listed")
	}
	if diff := cmp.Diff(want, o.Spec); diff != "" {
		t.Error(diff)
	}
	kind, ok := KindOfOrphan(workload.Builtin(), o)
	if !ok || !kind.Carries {
		t.Errorf("it claims a %s", kind.Kind)
	}
	if diff := cmp.Diff(carriedPlace, OrphanedObject(o)); diff != "" {
		t.Error(diff)
	}
}

// Operators pass labels and annotations on to what they make; others write them by hand.
func TestWhatHasAMarkThatIsNotItsOwnIsNotListed(t *testing.T) {
	for name, change := range map[string]func(*unstructured.Unstructured){
		"a child under another name":   func(o *unstructured.Unstructured) { o.SetName("settings-1") },
		"a child in another namespace": func(o *unstructured.Unstructured) { o.SetNamespace("web") },
		"a child of another kind":      func(o *unstructured.Unstructured) { o.SetKind("Secret") },
		"without its identity": func(o *unstructured.Unstructured) {
			setNested(o.Object, "", "metadata", "annotations", CarriedAnnotation)
		},
		"of another control plane": func(o *unstructured.Unstructured) {
			o.SetLabels(map[string]string{placementv1alpha1.CarriedByLabel: "other"})
		},
		"with the label of copies as well": func(o *unstructured.Unstructured) {
			setNested(o.Object, controlPlane, "metadata", "labels", placementv1alpha1.ManagedByLabel)
		},
		"of a Manifest in a logical cluster": func(o *unstructured.Unstructured) {
			setNested(o.Object, "shop", "metadata", "annotations", placementv1alpha1.LogicalClusterAnnotation)
		},
	} {
		t.Run(name, func(t *testing.T) {
			obj := orphaned(t, carriedSettings)
			change(obj)
			if o, ok := NewCarriedOrphan(target, controlPlane, kinds["Manifest"], "configmaps", obj); ok {
				t.Errorf("it is listed: %+v", o.Spec)
			}
			in := orphanOf(t, carriedSettings)
			in.Physical = obj
			if got := describe(PlanOrphan(in)); got != "DropOrphan" {
				t.Errorf("it stays listed: %s", got)
			}
		})
	}
	// A copy that says to be of root: nothing but Manifests has anything below from there.
	planted := (situation{kind: "ConfigMap", physical: "old"}).input().Physical
	setNested(planted.Object, "root", "metadata", "annotations", placementv1alpha1.LogicalClusterAnnotation)
	if o, ok := NewOrphan(target, controlPlane, kinds["ConfigMap"], planted); ok {
		t.Errorf("a copy of root is listed: %+v", o.Spec)
	}
}

func orphanOf(t *testing.T, object string) OrphanInput {
	t.Helper()
	in := OrphanInput{Target: target, ControlPlane: controlPlane, Kind: kinds["Manifest"], Physical: orphaned(t, object)}
	in.Orphan, _ = NewCarriedOrphan(target, controlPlane, in.Kind, "things", in.Physical)
	in.Orphan.Generation = 2
	return in
}

func TestThePlanForWhatAManifestCarried(t *testing.T) {
	const namespace = `{apiVersion: v1, kind: Namespace, metadata: {name: monitoring}}`
	const definition = `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: widgets.example.com}}`
	const leave, remove, adopt = fleetv1alpha1.OrphanLeave, fleetv1alpha1.OrphanRemove, fleetv1alpha1.OrphanAdopt
	said := func(status metav1.ConditionStatus, reason string) func(*OrphanInput) {
		return func(in *OrphanInput) {
			in.Orphan.Status.Conditions = []metav1.Condition{{Type: fleetv1alpha1.ConditionObjectExists, Status: status, Reason: reason, ObservedGeneration: 2, Message: "so it says"}}
		}
	}
	gone, exists := said(metav1.ConditionFalse, fleetv1alpha1.ReasonNotFound), said(metav1.ConditionTrue, fleetv1alpha1.ReasonExists)
	manifest := func(object, uid string) func(*OrphanInput) {
		return func(in *OrphanInput) {
			gone(in)
			in.Logical = carrierOf(t, object)
			in.Logical.SetUID(types.UID(uid))
			in.Logical.SetAnnotations(map[string]string{placementv1alpha1.TargetsAnnotation: `{"` + target + `":{}}`})
		}
	}
	asked := func(in *OrphanInput) { gone(in); in.Asked = true }
	for _, c := range []struct {
		name, object string
		order        fleetv1alpha1.OrphanOrder
		edit         func(*OrphanInput)
		want         string
	}{
		{"nobody has decided", carriedSettings, "", gone, "WriteOrphan Found/NotFound"},
		{"left", carriedSettings, leave, gone, "WriteOrphan Left/Ordered"},
		{"removed, before the server was asked", carriedSettings, remove, nil, "WriteOrphan Removing/AskingServer"},
		{"removed, and the Manifest exists elsewhere", carriedSettings, remove, exists, "WriteOrphan Refused/ObjectExists"},
		{"removed: the last word is asked for", carriedSettings, remove, gone, "AskServer u1 LastWord"},
		{"removed", carriedSettings, remove, asked, "Delete p1 Ordered"},
		{"removed, and the Manifest is here", carriedSettings, remove, manifest(carriedSettings, "u1"), "WriteOrphan Refused/ObjectExists"},
		{"removed, and a Manifest of the name takes it up", carriedSettings, remove, manifest(carriedSettings, "u2"), "WriteOrphan Refused/ObjectExists"},
		{"removed, and a Manifest of the name carries something else", carriedSettings, remove, manifest(namespace, "u2"), "AskServer u1 LastWord"},
		{"removed, with what others have in the namespace", namespace, remove, asked, "WriteOrphan Refused/TakesOthersAlong"},
		{"removed, with all objects of the kind", definition, remove, asked, "WriteOrphan Refused/TakesOthersAlong"},
		{"adopted, and there is no Manifest", carriedSettings, adopt, gone, "WriteOrphan Refused/NoObject"},
		{"adopted, and the Manifest is elsewhere", carriedSettings, adopt, exists, "WriteOrphan Refused/NotPlacedHere"},
		{"adopted", carriedSettings, adopt, manifest(carriedSettings, "u2"), "WriteOrphan Adopting/Ordered"},
		{"adopted, and the Manifest carries something else", carriedSettings, adopt, manifest(namespace, "u2"), "WriteOrphan Refused/CarriesAnother"},
		{"taken up, whatever the order is", carriedSettings, remove, func(in *OrphanInput) {
			asked(in)
			in.Copy = &placementv1alpha1.Copy{Status: placementv1alpha1.CopyStatus{State: placementv1alpha1.CopySynced, PhysicalUID: "p1"}}
		}, "DropOrphan"},
		{"gone", carriedSettings, remove, func(in *OrphanInput) { in.Physical = nil }, "DropOrphan"},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := orphanOf(t, c.object)
			in.Orphan.Spec.Order = c.order
			if c.edit != nil {
				c.edit(&in)
			}
			actions := PlanOrphan(in)
			got := describe(actions)
			if len(actions) == 1 && actions[0].Verb == WriteOrphan {
				got += fmt.Sprintf(" %s/%s", actions[0].Orphan.Status.State, actions[0].Orphan.Status.Reason)
			}
			if got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}
