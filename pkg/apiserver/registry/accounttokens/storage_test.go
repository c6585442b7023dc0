package accounttokens

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	authentication "k8s.io/kubernetes/pkg/apis/authentication"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// Thousands of tokens of one namespace are asked for together, and again at half their life. The namespace is not read for
// each of them, and what counts is still what is stored.
func TestTheNamespaceIsReadOnceForManyTokens(t *testing.T) {
	const accounts = 100
	deployments := schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	lists := map[schema.GroupVersionResource]string{}
	for _, kind := range workload.Builtin().Kinds() {
		lists[kind.GroupVersionResource()] = kind.Kind + "List"
	}
	var stored []runtime.Object
	for i := range accounts {
		stored = append(stored, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "apps/v1", "kind": "Deployment",
			"metadata": map[string]any{"namespace": "web", "name": fmt.Sprint("d", i), "annotations": map[string]any{placementv1alpha1.TargetsAnnotation: `{"east":{}}`}},
			"spec":     map[string]any{"template": map[string]any{"spec": map[string]any{"serviceAccountName": fmt.Sprint("a", i)}}},
		}})
	}
	client := dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), lists, stored...)
	r := NewREST(nil, nil, client, workload.Builtin())
	ctx := genericapirequest.WithNamespace(scope.WithCluster(t.Context(), "shop"), "web")
	permitted := func(account string) bool {
		t.Helper()
		ok, err := r.permitted(ctx, "east", account, &authentication.TokenRequest{Spec: authentication.TokenRequestSpec{ExpirationSeconds: 600}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return ok
	}
	for i := range accounts {
		if !permitted(fmt.Sprint("a", i)) {
			t.Errorf("the token of account %d is refused", i)
		}
	}
	reads := map[string]int{}
	for _, a := range client.Actions() {
		if a.GetResource() == deployments {
			reads[a.GetVerb()]++
		}
	}
	if reads["list"] != 1 || reads["get"] != accounts-1 {
		t.Errorf("it was read so often: %v", reads)
	}

	if err := client.Resource(deployments).Namespace("web").Delete(ctx, "d7", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	elsewhere := stored[8].(*unstructured.Unstructured).DeepCopy()
	elsewhere.SetAnnotations(map[string]string{placementv1alpha1.TargetsAnnotation: `{"west":{}}`})
	if _, err := client.Resource(deployments).Namespace("web").Update(ctx, elsewhere, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	for account, want := range map[string]bool{"a6": true, "a7": false, "a8": false, "nobody": false} {
		if got := permitted(account); got != want {
			t.Errorf("after a change %s is permitted: %v", account, got)
		}
	}
	again := stored[7].(*unstructured.Unstructured).DeepCopy()
	again.SetName("another")
	if _, err := client.Resource(deployments).Namespace("web").Create(ctx, again, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if !permitted("a7") {
		t.Error("refused, although what was made a moment ago mounts it")
	}
}
