package references

import (
	"context"
	"slices"
	"testing"

	"github.com/kcp-dev/logicalcluster/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	metadatafake "k8s.io/client-go/metadata/fake"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/workload"
)

func pod(targets string, spec map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{
		"namespace": "web", "name": "one", "annotations": map[string]any{placementv1alpha1.TargetsAnnotation: targets, logicalcluster.AnnotationKey: "shop"},
	}, "spec": spec}}
}

// An informer that lacks a referrer must not take what it needs from it: here none of
// them has anything.
func TestACopyIsRemovedOnlyWhenTheServerKnowsOfNobodyWhoNeedsIt(t *testing.T) {
	secret := map[string]any{"volumes": []any{map[string]any{"name": "s", "secret": map[string]any{"secretName": "key"}}}}
	account := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ServiceAccount",
		"metadata": map[string]any{"namespace": "web", "name": "robot"}, "imagePullSecrets": []any{map[string]any{"name": "key"}}}}
	for name, c := range map[string]struct {
		live []runtime.Object
		want string
	}{
		"nobody":                          {nil, `{"east":{"state":"Removing"},"west":{}}`},
		"a Pod on east":                   {[]runtime.Object{pod(`{"east":{}}`, secret)}, `{"east":{},"west":{}}`},
		"a Pod that is being removed":     {[]runtime.Object{pod(`{"east":{"state":"Removing"}}`, secret)}, `{"east":{},"west":{}}`},
		"a Pod elsewhere":                 {[]runtime.Object{pod(`{"west":{}}`, secret)}, `{"east":{"state":"Removing"},"west":{}}`},
		"a Pod with another Secret":       {[]runtime.Object{pod(`{"east":{}}`, map[string]any{})}, `{"east":{"state":"Removing"},"west":{}}`},
		"a Pod, through service account":  {[]runtime.Object{pod(`{"east":{}}`, map[string]any{"serviceAccountName": "robot"}), account}, `{"east":{},"west":{}}`},
		"a service account, without Pods": {[]runtime.Object{account}, `{"east":{"state":"Removing"},"west":{}}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lists := map[schema.GroupVersionResource]string{corev1.SchemeGroupVersion.WithResource("serviceaccounts"): "ServiceAccountList"}
			for _, kind := range workload.Builtin().Kinds() {
				lists[kind.GroupVersionResource()] = kind.Kind + "List"
			}
			accounts := controller.NewInformer("accounts", &corev1.ServiceAccount{}, controller.ListWatch{
				List: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
					return &corev1.ServiceAccountList{}, nil
				},
				Watch: func(context.Context, metav1.ListOptions) (watch.Interface, error) { return watch.NewFake(), nil },
			}, controller.InformerOptions[*corev1.ServiceAccount]{})
			go accounts.Run(t.Context())
			c1 := &Controller{Config: Config{Kinds: workload.Builtin(), Dynamic: dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), lists, c.live...), ServiceAccounts: accounts}}
			c1.stored = newGather(c1.readAll)
			current := `{"east":{},"west":{}}`
			k := key{controller.Request{Cluster: "shop", Namespace: "web", Name: "key"}, workload.Secrets}
			referrers, err := c1.confirmed(t.Context(), k, parse(t, current)[0], []*holder{{targets: parse(t, `{"west":{}}`)[0]}})
			if err != nil {
				t.Fatal(err)
			}
			if got := secretTargets(current, referrers); got != c.want {
				t.Errorf("targets %s, want %s", got, c.want)
			}
		})
	}
}

func TestTheServerIsAskedBeforeACopyIsRemoved(t *testing.T) {
	scheme := metadatafake.NewTestScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	settings := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{
		Namespace: "web", Name: "settings", UID: "u", ResourceVersion: "1", Finalizers: []string{placementv1alpha1.CopiesFinalizer},
		Annotations: map[string]string{placementv1alpha1.TargetsAnnotation: `{"east":{}}`, logicalcluster.AnnotationKey: "shop"},
	}}
	lists := map[schema.GroupVersionResource]string{}
	for _, kind := range workload.Builtin().Kinds() {
		lists[kind.GroupVersionResource()] = kind.Kind + "List"
	}
	metadata := metadatafake.NewSimpleMetadataClient(scheme, settings)
	configMaps := corev1.SchemeGroupVersion.WithResource("configmaps")
	objects := controller.NewMetadata(metadata, []schema.GroupVersionResource{configMaps}, nil)
	go objects.Run(t.Context())
	if err := objects.WaitForSync(t.Context()); err != nil {
		t.Fatal(err)
	}
	uses := pod(`{"east":{}}`, map[string]any{"volumes": []any{map[string]any{"name": "c", "configMap": map[string]any{"name": "settings"}}}})
	c := New(Config{Kinds: workload.Builtin(), Dynamic: dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), lists, uses), Metadata: metadata, Objects: objects})
	metadata.ClearActions() // its informers of referrers do not run: they have nothing
	if _, err := c.reconcile(t.Context(), key{controller.RequestFor(settings), workload.ConfigMaps}); err != nil {
		t.Fatal(err)
	}
	for _, a := range metadata.Actions() {
		if slices.Contains([]string{"patch", "update", "delete"}, a.GetVerb()) {
			t.Errorf("the ConfigMap was written: %v", a)
		}
	}
}
