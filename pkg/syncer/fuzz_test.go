package syncer

import (
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// FuzzObserve: a physical cluster may tell anything of what runs there. What is mirrored of it is in
// the namespace of the tenant, and neither holds nor steers anything by keys of the system.
func FuzzObserve(f *testing.F) {
	f.Add([]byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":"kube-system","uid":"p1","finalizers":["x"],"annotations":{"placement.atoll.dev/targets":"{}","atoll.dev/server":"a b c"},"ownerReferences":[{"uid":"p-owner","controller":true,"kind":"ReplicaSet","name":"x","apiVersion":"apps/v1"}]},"spec":{"nodeName":"n","containers":[{"env":[{"name":1}]}],"volumes":[null,{"projected":{"sources":[7]}}]}}`))
	f.Add([]byte(`{"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSlice","metadata":{"name":"a","uid":"p1"},"endpoints":[{"targetRef":{"uid":1}},2]}`))
	f.Add([]byte(`{"apiVersion":"apps/v1","kind":"ReplicaSet","metadata":{"name":"a","uid":"p1","labels":{"controller-uid":"p-owner"}},"spec":{"template":{"spec":[]}},"status":{"replicas":"many"}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		physical := &unstructured.Unstructured{}
		if physical.UnmarshalJSON(data) != nil {
			return
		}
		kind, ok := workload.Builtin().ByKind(physical.GroupVersionKind().GroupKind())
		if !ok || !kind.Observed {
			return
		}
		s := Observation{
			Kind: kind, Physical: physical, Namespace: "web", Target: "east", Now: time.Unix(1<<40, 0),
			Owner:  func(uid types.UID) (Owner, bool) { return Owner{Name: "owner", UID: "l-owner"}, uid == "p-owner" },
			Refers: func(uid types.UID) (types.UID, bool) { return "l-" + uid, true },
		}
		for _, a := range Observe(s) {
			if a.Verb != CreateUp {
				continue
			}
			if a.Object.GetNamespace() != "web" || a.Object.GetName() != physical.GetName() || len(a.Object.GetFinalizers()) > 0 {
				t.Errorf("%s/%s is mirrored with finalizers %v", a.Object.GetNamespace(), a.Object.GetName(), a.Object.GetFinalizers())
			}
			for key := range a.Object.GetAnnotations() {
				if placementv1alpha1.IsSystemKey(key) && key != placementv1alpha1.UIDAnnotation {
					t.Errorf("annotation %q is mirrored", key)
				}
			}
			for _, ref := range a.Object.GetOwnerReferences() {
				if ref.UID != "l-owner" {
					t.Errorf("the owner %+v is mirrored", ref)
				}
			}
			s.Logical = a.Object
			Observe(s)
		}
	})
}

// FuzzTransform: whatever a tenant writes, what goes down is where it is to be, and marked as its
// own alone.
func FuzzTransform(f *testing.F) {
	f.Add([]byte(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a","namespace":"web","uid":"l1","labels":{"atoll.dev/managed-by":"x"},"ownerReferences":[{"uid":"o"}]},"spec":{"replicas":{},"template":{"spec":{"containers":[{"env":[1,{"valueFrom":{"fieldRef":{"fieldPath":"metadata.namespace"}}}]}],"volumes":[{"projected":{"sources":[{"serviceAccountToken":null}]}}]}}}}`))
	f.Add([]byte(`{"apiVersion":"batch/v1","kind":"CronJob","metadata":{"name":"a","namespace":"web","uid":"l1"},"spec":{"jobTemplate":{"spec":{"template":{"spec":{"serviceAccountName":["a"]}}}}}}`))
	f.Add([]byte(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a","namespace":"web","annotations":{"kubernetes.io/service-account.name":"default"}},"data":{"a":1}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		logical := &unstructured.Unstructured{}
		if logical.UnmarshalJSON(data) != nil {
			return
		}
		kind, ok := workload.Builtin().ByKind(logical.GroupVersionKind().GroupKind())
		if !ok || kind.Role == workload.Container {
			return
		}
		metadata, ok := logical.Object["metadata"].(map[string]any)
		if !ok {
			return
		}
		metadata["namespace"], metadata["name"], metadata["uid"] = "web", "a", "l1" // as the server has it
		before := logical.DeepCopy()
		ref := Ref{Kind: kind, Cluster: "one", Namespace: "web", Name: logical.GetName()}
		copied, _ := Transform(logical, Placing{Ref: ref, ControlPlane: "up", Namespace: "one-web-1", Account: &Account{}, Server: Server{Host: "10.0.0.1", Port: "443"}})
		if !slices.Equal(jsonOf(t, before), jsonOf(t, logical)) {
			t.Errorf("%v was changed to %v", before, logical)
		}
		if copied == nil {
			return
		}
		if copied.GetNamespace() != "one-web-1" || copied.GetName() != logical.GetName() || len(copied.GetFinalizers())+len(copied.GetOwnerReferences()) > 0 {
			t.Errorf("%v goes down", copied.Object["metadata"])
		}
		if m, ok := MarkOf(kind.GroupResource(), copied); !ok || m.ControlPlane != "up" || m.UID != logical.GetUID() {
			t.Errorf("%v is marked as %+v", copied.Object["metadata"], m)
		}
	})
}

func jsonOf(t *testing.T, obj *unstructured.Unstructured) []byte {
	t.Helper()
	data, err := obj.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return data
}
