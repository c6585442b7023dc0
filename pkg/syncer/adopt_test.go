package syncer

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

const (
	aDeployment = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, namespace: web, uid: l-web, annotations: {placement.atoll.dev/targets: '{\"east\":{}}'}}\nspec: {selector: {matchLabels: {app: web}}}\n"
	aReplicaSet = "apiVersion: apps/v1\nkind: ReplicaSet\nmetadata: {name: thing, namespace: web, uid: old, labels: {app: web}, annotations: {placement.atoll.dev/targets: '{\"east\":{}}'}}\n"
	aController = "apiVersion: v1\nkind: ReplicationController\nmetadata: {name: web, namespace: web, uid: l-web, annotations: {placement.atoll.dev/targets: '{\"east\":{}}'}}\nspec: {selector: {app: web}}\n"
)

func TestWhatAControllerMayAdopt(t *testing.T) {
	targets := func(o *unstructured.Unstructured, value string) {
		o.SetAnnotations(map[string]string{placementv1alpha1.TargetsAnnotation: value})
	}
	deleted := func(o *unstructured.Unstructured) { o.SetDeletionTimestamp(ptr.To(metav1.Unix(1, 0))) }
	for _, c := range []struct {
		name            string
		controller, obj string
		edit            func(controller, obj *unstructured.Unstructured)
		want            bool
	}{
		{name: "what its selector matches", controller: aDeployment, obj: aReplicaSet, want: true},
		{name: "with the selector of a ReplicationController", controller: aController, obj: strings.ReplaceAll(strings.ReplaceAll(aReplicaSet, "apps/v1", "v1"), "ReplicaSet", "Pod"), want: true},
		{name: "not with other labels", controller: aDeployment, obj: aReplicaSet, edit: func(_, o *unstructured.Unstructured) { o.SetLabels(map[string]string{"app": "db"}) }},
		{name: "not without a selector", controller: aDeployment, obj: aReplicaSet, edit: func(c, _ *unstructured.Unstructured) { delete(c.Object, "spec") }},
		{name: "not with one that is broken", controller: aDeployment, obj: aReplicaSet, edit: func(c, _ *unstructured.Unstructured) {
			setNested(c.Object, []any{map[string]any{"key": "app", "operator": "Like"}}, "spec", "selector", "matchExpressions")
		}},
		{name: "not of a kind that it does not control", controller: aController, obj: aReplicaSet},
		{name: "not what somebody controls", controller: aDeployment, obj: aReplicaSet, edit: func(_, o *unstructured.Unstructured) {
			o.SetOwnerReferences([]metav1.OwnerReference{{UID: "x", Controller: ptr.To(true)}})
		}},
		{name: "what somebody owns and nobody controls", controller: aDeployment, obj: aReplicaSet, edit: func(_, o *unstructured.Unstructured) {
			o.SetOwnerReferences([]metav1.OwnerReference{{UID: "x"}})
		}, want: true},
		{name: "not what is being deleted", controller: aDeployment, obj: aReplicaSet, edit: func(_, o *unstructured.Unstructured) { deleted(o) }},
		{name: "not while it is being deleted", controller: aDeployment, obj: aReplicaSet, edit: func(c, _ *unstructured.Unstructured) { deleted(c) }},
		{name: "not in another namespace", controller: aDeployment, obj: aReplicaSet, edit: func(c, _ *unstructured.Unstructured) { c.SetNamespace("db") }},
		{name: "not what has two copies", controller: aDeployment, obj: aReplicaSet, edit: func(_, o *unstructured.Unstructured) { targets(o, `{"east":{},"west":{}}`) }},
		{name: "not what moves", controller: aDeployment, obj: aReplicaSet, edit: func(_, o *unstructured.Unstructured) { targets(o, `{"east":{},"west":{"state":"Removing"}}`) }},
		{name: "not what is leaving", controller: aDeployment, obj: aReplicaSet, edit: func(_, o *unstructured.Unstructured) { targets(o, `{"east":{"state":"Removing"}}`) }},
		{name: "not what is elsewhere", controller: aDeployment, obj: aReplicaSet, edit: func(_, o *unstructured.Unstructured) { targets(o, `{"west":{}}`) }},
		{name: "not twice", controller: aDeployment, obj: aReplicaSet, edit: func(_, o *unstructured.Unstructured) { targets(o, `{"east":{"state":"Observed","uid":"p1"}}`) }},
		{name: "not from elsewhere", controller: aDeployment, obj: aReplicaSet, edit: func(c, _ *unstructured.Unstructured) { targets(c, `{"west":{}}`) }},
		{name: "by a controller with more targets", controller: aDeployment, obj: aReplicaSet, edit: func(c, _ *unstructured.Unstructured) { targets(c, `{"east":{},"west":{}}`) }, want: true},
		{name: "by one that was mirrored", controller: aDeployment, obj: aReplicaSet, edit: func(c, _ *unstructured.Unstructured) { targets(c, `{"east":{"state":"Observed","uid":"p2"}}`) }, want: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			controller, obj := parse(t, c.controller), parse(t, c.obj)
			if c.edit != nil {
				c.edit(controller, obj)
			}
			if got := Adopts(kindOf(t, controller), controller, kindOf(t, obj), obj, target); got != c.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

// adoptedBelow is a ReplicaSet of a user that the controller p-web controls below,
// and scaled.
func adoptedBelow(t *testing.T) func(*Input) {
	return func(in *Input) {
		in.Logical.SetLabels(map[string]string{"app": "web"})
		in.Physical.SetOwnerReferences([]metav1.OwnerReference{{UID: "p-web", Controller: ptr.To(true)}})
		in.Owner = func(uid types.UID) (*unstructured.Unstructured, bool) { return parse(t, aDeployment), uid == "p-web" }
	}
}

func acceptedAdoption(in *Input) {
	in.Copy.Status.Controller = &placementv1alpha1.ObjectReference{Kind: "Deployment", Name: "web"}
	in.Copy.Status.Reason = ReasonAdoptionAccepted
}

func TestWhatAControllerBelowAdoptedIsReportedAndLeftAlone(t *testing.T) {
	adopted := adoptedBelow(t)
	and := func(edit func(*Input)) func(*Input) {
		return func(in *Input) { adopted(in); edit(in) }
	}
	for _, c := range []struct {
		name string
		s    situation
		want string
	}{
		{"8a adopted", situation{logical: "live", copy: "Synced", physical: "old", edit: adopted}, "WriteCopy Pending/Adopted"},
		{"8a what it changed is not put back", situation{logical: "live", copy: "Synced", physical: "old~", edit: adopted}, "WriteCopy Pending/Adopted"},
		{"8a without the mark, by the record", situation{logical: "live", copy: "Synced", physical: "unmarked", edit: adopted}, "WriteCopy Pending/Adopted"},
		{"8a and deleted", situation{logical: "live", copy: "Synced", physical: "old-", edit: adopted}, "WriteCopy Pending/Adopted"},
		{"7a gone before the server took note", situation{logical: "live", copy: "Pending", edit: func(in *Input) {
			in.Copy.Status.Controller = &placementv1alpha1.ObjectReference{Kind: "Deployment", Name: "web"}
		}}, "WriteCopy Pending/New"},
		{"7b gone after the server accepted it", situation{logical: "live", copy: "Pending", edit: acceptedAdoption}, ""},
		{"7b accepted, and somebody else's in its place", situation{logical: "live", copy: "Pending", physical: "foreign", edit: acceptedAdoption}, ""},
		{"7b accepted and still there", situation{logical: "live", copy: "Pending", physical: "old~", edit: and(acceptedAdoption)}, ""},
		{"10 accepted, and deleted before the server wrote it", situation{logical: "deleting", copy: "Pending", physical: "old", edit: and(acceptedAdoption)}, "WriteCopy Removing/Removing, Delete p1 Removing"},
		{"1 not before there is a record", situation{logical: "live", physical: "old", edit: adopted}, "WriteCopy Pending/New"},
		{"10 nor while it is being deleted", situation{logical: "deleting", copy: "Synced", physical: "old", edit: adopted}, "WriteCopy Removing/Removing, Delete p1 Removing"},
		{"8 nor by a foreign object below", situation{logical: "live", copy: "Synced", physical: "old~", edit: and(func(in *Input) {
			in.Owner = func(types.UID) (*unstructured.Unstructured, bool) { return nil, false }
		})}, "Apply Changed to p1"},
		{"8 with several targets each copy stays what it is", situation{logical: "live", copy: "Synced", physical: "old~", edit: and(func(in *Input) {
			in.Logical.SetAnnotations(map[string]string{placementv1alpha1.TargetsAnnotation: `{"east":{},"west":{}}`})
		})}, "Apply Changed to p1"},
		{"15 noted by the server, the Copy is left", situation{logical: "observed", copy: "Pending", physical: "old", edit: adopted}, ""},
		{"15 the Copy is gone", situation{logical: "observed", physical: "old", edit: func(in *Input) {
			in.Logical.SetAnnotations(map[string]string{placementv1alpha1.TargetsAnnotation: `{"east":{"state":"Observed","uid":"p1"}}`})
		}}, ""},
		{"12 another one in its place", situation{logical: "observed", physical: "old", edit: func(in *Input) {
			in.Logical.SetAnnotations(map[string]string{placementv1alpha1.TargetsAnnotation: `{"east":{"state":"Observed","uid":"p0"}}`})
		}}, "Report"},
		{"15 nobody asks the target", situation{logical: "observed", copy: "Pending", edit: unseen}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.s.kind = "ReplicaSet"
			if got := describe(Plan(c.s.input())); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestTheReportOfAnAdoptionNamesTheController(t *testing.T) {
	in := situation{kind: "ReplicaSet", logical: "live", copy: "Synced", physical: "old", edit: adoptedBelow(t)}.input()
	in.Copy.Status.AppliedGeneration = 2
	got := Plan(in)[0].Copy.Status
	want := placementv1alpha1.CopyStatus{
		State: "Pending", Reason: "Adopted", Message: "a controller of the physical cluster has taken it over: Deployment web",
		AppliedGeneration: 2, PhysicalNamespace: "shop-web-1", PhysicalUID: "p1",
		Controller: &placementv1alpha1.ObjectReference{Group: "apps", Version: "v1", Resource: "deployments", Kind: "Deployment", Name: "web", UID: "l-web"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	in.Copy.Status = got
	if again := Plan(in); len(again) != 0 {
		t.Errorf("once reported: %s", describe(again))
	}
	in.Physical.SetOwnerReferences(nil)
	in.Applied = true
	if released := Plan(in); describe(released) != "WriteCopy Synced" || released[0].Copy.Status.Controller != nil {
		t.Errorf("released before the server took note: %s", describe(released))
	}
}
