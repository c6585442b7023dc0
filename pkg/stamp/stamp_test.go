package stamp

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kcp-dev/logicalcluster/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"

	"github.com/atoll-dev/atoll/pkg/workload"
)

func TestTheNameOfThePhysicalNamespaceIsReadable(t *testing.T) {
	got := PhysicalNamespace("cp", "shop", "web", "uid")
	if prefix, suffix := "shop-web-", got[len("shop-web-"):]; !strings.HasPrefix(got, prefix) || len(suffix) != 8 {
		t.Errorf("%q is not shop-web- and 8 hex digits", got)
	}
}

func TestTheNameOfThePhysicalNamespaceIsAValidAndDistinctName(t *testing.T) {
	name := rapid.StringMatching(`[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?`)
	seen := map[string][4]string{}
	rapid.Check(t, func(t *rapid.T) {
		in := [4]string{name.Draw(t, "control plane"), name.Draw(t, "cluster"), name.Draw(t, "namespace"), name.Draw(t, "uid")}
		got := PhysicalNamespace(in[0], logicalcluster.Name(in[1]), in[2], types.UID(in[3]))
		if problems := validation.IsDNS1123Label(got); len(problems) > 0 {
			t.Fatalf("%q: %v", got, problems)
		}
		if other, ok := seen[got]; ok && other != in {
			t.Fatalf("%v and %v are both called %q", in, other, got)
		}
		seen[got] = in
	})
}

func TestEachPartOfTheIdentityChangesThePhysicalNamespace(t *testing.T) {
	all := map[string]bool{
		PhysicalNamespace("cp", "a", "b", "u"):   true,
		PhysicalNamespace("cp2", "a", "b", "u"):  true,
		PhysicalNamespace("cp", "a", "b", "u2"):  true,
		PhysicalNamespace("cp", "a-b", "c", "u"): true,
		PhysicalNamespace("cp", "a", "b-c", "u"): true,
	}
	if len(all) != 5 {
		t.Errorf("%d names for 5 namespaces: %v", len(all), all)
	}
}

func TestTargetsAndFinalizerAreStampedTogetherAndOnce(t *testing.T) {
	annotations := map[string]string{"a": "b"}
	obj := &metav1.ObjectMeta{Annotations: annotations, Finalizers: []string{"x"}}
	Set(obj, On([]string{"west", "east"}))
	Set(obj, On([]string{"west", "east"}))
	want := &metav1.ObjectMeta{
		Annotations: map[string]string{"a": "b", "placement.atoll.dev/targets": `{"east":{},"west":{}}`},
		Finalizers:  []string{"x", "placement.atoll.dev/copies"},
	}
	if diff := cmp.Diff(want, obj); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(annotations) != 1 {
		t.Error("the map of the caller was changed")
	}
}

func TestAnObservedObjectHasItsUIDAndIsKeptIfItsDeletionActsBelow(t *testing.T) {
	for resource, finalizers := range map[schema.GroupResource][]string{
		{Resource: "pods"}:                                      nil,
		{Resource: "persistentvolumeclaims"}:                    {"placement.atoll.dev/copies"},
		{Group: "apps", Resource: "replicasets"}:                {"placement.atoll.dev/copies"},
		{Group: "batch", Resource: "jobs"}:                      {"placement.atoll.dev/copies"},
		{Group: "apps", Resource: "controllerrevisions"}:        nil,
		{Group: "discovery.k8s.io", Resource: "endpointslices"}: nil,
		{Resource: "events"}:                                    nil,
	} {
		obj := &metav1.ObjectMeta{}
		kind, _ := workload.Builtin().Find(resource)
		Observed(kind, obj, "east", "123")
		want := &metav1.ObjectMeta{
			Annotations: map[string]string{"placement.atoll.dev/targets": `{"east":{"state":"Observed","uid":"123"}}`}, Finalizers: finalizers,
		}
		if diff := cmp.Diff(want, obj); diff != "" {
			t.Errorf("%s (-want +got):\n%s", resource, diff)
		}
	}
}

func TestThePhysicalNamespaceIsRecordedOnceAndWithTargetsOnly(t *testing.T) {
	ns := &metav1.ObjectMeta{Name: "web", UID: "u"}
	NamePhysicalNamespace(ns, "cp", "shop")
	if len(ns.Annotations) > 0 {
		t.Errorf("without targets: %v", ns.Annotations)
	}
	Set(ns, On([]string{"east"}))
	NamePhysicalNamespace(ns, "cp", "shop")
	NamePhysicalNamespace(ns, "another", "shop")
	if got, want := ns.Annotations["placement.atoll.dev/physical-namespace"], PhysicalNamespace("cp", "shop", "web", "u"); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestAPatchNamesWhatWasReadAndWhatChangesOnly(t *testing.T) {
	stored := func() *metav1.ObjectMeta {
		return &metav1.ObjectMeta{
			Name: "web", UID: "u", ResourceVersion: "7", Finalizers: []string{"other"},
			Annotations: map[string]string{"note": "mine"},
		}
	}
	stamped := stored()
	Set(stamped, On([]string{"east"}))
	for _, c := range []struct {
		name   string
		obj    *metav1.ObjectMeta
		change func(metav1.Object)
		want   string
	}{
		{"targets", stored(), func(o metav1.Object) { Set(o, On([]string{"east"})) },
			`{"metadata":{"annotations":{"placement.atoll.dev/targets":"{\"east\":{}}"},"finalizers":["other","placement.atoll.dev/copies"],"resourceVersion":"7","uid":"u"}}`},
		{"the same again", stamped, func(o metav1.Object) { Set(o, On([]string{"east"})) }, ""},
		{"the last target goes", stamped, func(o metav1.Object) { Set(o, nil) },
			`{"metadata":{"annotations":{"placement.atoll.dev/targets":null},"finalizers":["other"],"resourceVersion":"7","uid":"u"}}`},
		{"released", stamped, Release, `{"metadata":{"finalizers":["other"],"resourceVersion":"7","uid":"u"}}`},
		{"the keys of users are not the system's", stored(), func(o metav1.Object) { o.SetAnnotations(nil) }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, string(Restamp(c.obj, c.change))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if diff := cmp.Diff(stored().Annotations, map[string]string{"note": "mine"}); diff != "" {
		t.Error(diff)
	}
}

func TestTheFinalizerOfAMirroredObjectStays(t *testing.T) {
	o := &metav1.ObjectMeta{}
	Set(o, On([]string{"east"}))
	Set(o, Adopted("east", "p"))
	want := &metav1.ObjectMeta{
		Annotations: map[string]string{"placement.atoll.dev/targets": `{"east":{"state":"Observed","uid":"p","adopted":true}}`},
		Finalizers:  []string{"placement.atoll.dev/copies"},
	}
	if diff := cmp.Diff(want, o); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
