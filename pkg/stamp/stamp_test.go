package stamp

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/kcp-dev/logicalcluster/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"
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

func TestNothingIsPlacedInRoot(t *testing.T) {
	for _, c := range []struct {
		cluster   logicalcluster.Name
		namespace string
		want      bool
	}{
		{"shop", "web", true}, {"shop", "default", true}, {"shop", "kubernetes", true},
		{"shop", "kube-system", true}, {"root", "web", false}, {"shop", "", false},
	} {
		if got := Placeable(c.cluster, c.namespace); got != c.want {
			t.Errorf("Placeable(%s, %s) = %v", c.cluster, c.namespace, got)
		}
	}
}

func TestTargetsAndFinalizerAreStampedTogetherAndOnce(t *testing.T) {
	annotations := map[string]string{"a": "b"}
	obj := &metav1.ObjectMeta{Annotations: annotations, Finalizers: []string{"x"}}
	Targets(obj, []string{"west", "east"})
	Targets(obj, []string{"west", "east"})
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
		Observed(resource, obj, "east", "123")
		want := &metav1.ObjectMeta{
			Annotations: map[string]string{"placement.atoll.dev/targets": `{"east":{"state":"Observed","uid":"123"}}`}, Finalizers: finalizers,
		}
		if diff := cmp.Diff(want, obj); diff != "" {
			t.Errorf("%s (-want +got):\n%s", resource, diff)
		}
	}
}

func TestTheStampOfANamespaceIsCompletedAndNeverChanged(t *testing.T) {
	for _, c := range []struct {
		name      string
		stored    metav1.ObjectMeta
		want      *metav1.ObjectMeta
		unchanged bool
	}{
		{
			name:   "a fresh one gets all three",
			stored: metav1.ObjectMeta{Finalizers: []string{"other"}},
			want: &metav1.ObjectMeta{
				Annotations: map[string]string{"placement.atoll.dev/targets": `{"east":{}}`, "placement.atoll.dev/physical-namespace": PhysicalNamespace("cp", "shop", "web", "u")},
				Finalizers:  []string{"placement.atoll.dev/copies", "other"},
			},
		},
		{
			name: "a recorded name and other targets stay",
			stored: metav1.ObjectMeta{Annotations: map[string]string{
				"placement.atoll.dev/physical-namespace": "old-name", "placement.atoll.dev/targets": `{"west":{"state":"Removing"}}`}},
			want: &metav1.ObjectMeta{
				Annotations: map[string]string{"placement.atoll.dev/targets": `{"east":{},"west":{"state":"Removing"}}`, "placement.atoll.dev/physical-namespace": "old-name"},
				Finalizers:  []string{"placement.atoll.dev/copies"},
			},
		},
		{
			name: "a complete one is left alone",
			stored: metav1.ObjectMeta{
				Annotations: map[string]string{"placement.atoll.dev/targets": `{"east":{}}`, "placement.atoll.dev/physical-namespace": "x"},
				Finalizers:  []string{"placement.atoll.dev/copies"},
			},
			unchanged: true,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			ns := &corev1.Namespace{ObjectMeta: c.stored}
			ns.Name, ns.UID = "web", "u"
			patch := Namespace(ns, "shop", "cp", []string{"east"})
			if c.unchanged {
				if patch != nil {
					t.Errorf("patched: %s", patch)
				}
				return
			}
			c.want.Name, c.want.UID = "web", "u"
			before, err := json.Marshal(ns)
			if err != nil {
				t.Fatal(err)
			}
			after, err := strategicpatch.StrategicMergePatch(before, patch, &corev1.Namespace{})
			if err != nil {
				t.Fatal(err)
			}
			var got corev1.Namespace
			if err := json.Unmarshal(after, &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(*c.want, got.ObjectMeta); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
