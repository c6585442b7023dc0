package isolation

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/ptr"

	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/test/framework/server"
)

// series are the time series of the server, without their values.
func (w *world) series(t *testing.T) []string {
	t.Helper()
	text, err := w.Kube.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(cluster("root"))
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for line := range strings.Lines(string(text)) {
		if name, _, ok := strings.Cut(line, "} "); ok && !strings.HasPrefix(line, "#") {
			all = append(all, name)
		}
	}
	return all
}

// use defines a resource of a name of its own, and does with it what there is to do.
func (w *world) use(t *testing.T, name string) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	config := w.config(w.robotToken)
	gvr := schema.GroupVersionResource{Group: name + ".example.com", Version: "v1" + name, Resource: name + "s"}
	definitions := clientset.NewForConfigOrDie(config).ApiextensionsV1().CustomResourceDefinitions()
	_, err := definitions.Create(w.evil, &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: gvr.GroupResource().String()}, Spec: apiextensionsv1.CustomResourceDefinitionSpec{
		Group: gvr.Group, Scope: apiextensionsv1.NamespaceScoped, Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: gvr.Resource, Singular: name, Kind: "Kind" + name, ListKind: "Kind" + name + "List"},
		Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: gvr.Version, Served: true, Storage: true, Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
			Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: ptr.To(true)}}}},
	}}, metav1.CreateOptions{})
	must(err)
	objects := dynamic.NewForConfigOrDie(config).Resource(gvr).Namespace("default")
	obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": gvr.GroupVersion().String(), "kind": "Kind" + name, "metadata": map[string]any{"name": "a"}}}
	server.Eventually(t, 20*time.Second, "the resource is served", func() error {
		_, err := objects.Create(w.evil, obj, metav1.CreateOptions{})
		return err
	})
	list, err := objects.List(w.evil, metav1.ListOptions{})
	must(err)
	_, err = objects.List(w.evil, metav1.ListOptions{ResourceVersion: "0"})
	must(err)
	changes, err := objects.Watch(w.evil, metav1.ListOptions{ResourceVersion: list.GetResourceVersion()})
	must(err)
	_, err = objects.Patch(w.evil, "a", types.MergePatchType, []byte(`{"spec":{"a":1}}`), metav1.PatchOptions{})
	must(err)
	<-changes.ResultChan()
	changes.Stop()
	for _, path := range []string{"/status", "/" + name, "/" + name + "?watch=1&timeoutSeconds=1"} {
		w.raw(t, "GET", fmt.Sprintf("/clusters/evil/apis/%s/%s/namespaces/default/%s/a%s", gvr.Group, gvr.Version, gvr.Resource, path), w.robotToken, "")
	}
	for _, path := range []string{"apis/%s.nowhere/v1/%ss?watch=1", "apis/apps/v1%s/%ss", "api/v1/%s/%s", "%s/%s"} {
		w.raw(t, "GET", "/clusters/evil/"+fmt.Sprintf(path, name, name), w.robotToken, "")
	}
	must(objects.Delete(w.evil, "a", metav1.DeleteOptions{}))
}

// rule has a webhook that nobody answers, and a policy, asked about one object.
func (w *world) rule(t *testing.T, name string) {
	t.Helper()
	admission := w.robot.AdmissionregistrationV1()
	match := admissionregistrationv1.RuleWithOperations{Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
		Rule: admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}}}
	meta := metav1.ObjectMeta{Name: name}
	_, err := admission.ValidatingWebhookConfigurations().Create(w.evil, &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: meta, Webhooks: []admissionregistrationv1.ValidatingWebhook{{
		Name: name + ".example.com", ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: ptr.To("https://" + name + ".invalid/")}, Rules: []admissionregistrationv1.RuleWithOperations{match},
		FailurePolicy: ptr.To(admissionregistrationv1.Ignore), SideEffects: ptr.To(admissionregistrationv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"}, TimeoutSeconds: ptr.To(int32(1)),
	}}}, metav1.CreateOptions{})
	if err == nil {
		_, err = admission.ValidatingAdmissionPolicies().Create(w.evil, &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: meta, Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: match}}},
			Validations:      []admissionregistrationv1.Validation{{Expression: "!has(object.data) || object.data.size() > 5"}}}}, metav1.CreateOptions{})
	}
	if err == nil {
		_, err = admission.ValidatingAdmissionPolicyBindings().Create(w.evil, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: meta, Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: name, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny}}}, metav1.CreateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	server.Eventually(t, 20*time.Second, "the policy refuses", func() error {
		_, err := w.robot.CoreV1().ConfigMaps("default").Create(w.evil, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "x-"}, Data: map[string]string{"a": "b"}}, metav1.CreateOptions{})
		if err == nil {
			return fmt.Errorf("it does not")
		}
		return nil
	})
	if _, err := w.robot.CoreV1().ConfigMaps("default").Create(w.evil, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "x-"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err) // the policy lets it pass, and the webhook may fail
	}
	for _, remove := range []func(context.Context, string, metav1.DeleteOptions) error{
		admission.ValidatingWebhookConfigurations().Delete, admission.ValidatingAdmissionPolicyBindings().Delete, admission.ValidatingAdmissionPolicies().Delete,
	} {
		if err := remove(w.evil, name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// measured is a server of the test's own: some metrics of upstream are of the process,
// and ask the etcd of the server that was started last, which may have ended.
func measured(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	t.Cleanup(w.Shutdown)
	return w
}

func TestWhatTenantsNameMakesNoSeriesOfMetrics(t *testing.T) {
	w := measured(t)
	w.use(t, "zebraone")
	before := w.series(t)
	const definitions = 40 // each would make hundreds of series
	t.Run("definitions", func(t *testing.T) {
		for i := range definitions {
			name := fmt.Sprintf("zebra%c%c", 'a'+i/10, 'a'+i%10)
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				w.use(t, name)
			})
		}
	})
	if more := len(w.series(t)) - len(before); more >= definitions {
		t.Errorf("%d definitions made %d series", definitions, more)
	}
	w.rule(t, "zebrarule")
	family := regexp.MustCompile(`^\w+`)
	seen := map[string]bool{}
	for _, s := range w.series(t) {
		if name := family.FindString(s); strings.Contains(s, "zebra") && !seen[name] {
			seen[name] = true
			t.Errorf("a tenant named it: %s", s)
		}
	}
	if !slices.ContainsFunc(w.series(t), func(s string) bool {
		return s == `atoll_logical_cluster_requests_total{logical_cluster="evil"`
	}) {
		t.Error("the requests of a logical cluster are not counted")
	}
	// What is the server's has its name.
	if _, err := w.robot.NetworkingV1().Ingresses("default").List(w.evil, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, resource := range []string{"configmaps", "ingresses", "customresourcedefinitions"} {
		named := false
		for _, s := range w.series(t) {
			named = named || strings.HasPrefix(s, "apiserver_request_total{") && strings.Contains(s, fmt.Sprintf("resource=%q", resource))
		}
		if !named {
			t.Errorf("no requests of %s are counted", resource)
		}
	}
}

func TestEveryResourceOfTheServerIsNamedInMetrics(t *testing.T) {
	w := measured(t)
	admin := discovery.NewDiscoveryClientForConfigOrDie(scope.PinnedConfig(w.Config, scope.Scope{Cluster: scope.Root}))
	groups, err := admin.ServerPreferredResources()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{}
	for _, group := range groups {
		gv, err := schema.ParseGroupVersion(group.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range group.APIResources {
			if !slices.Contains(r.Verbs, "list") {
				continue
			}
			if _, err := w.Dynamic.Resource(gv.WithResource(r.Name)).List(cluster("root"), metav1.ListOptions{}); err != nil {
				t.Errorf("listing %s: %v", r.Name, err)
			}
			want[fmt.Sprintf(`group=%q,resource=%q,`, gv.Group, r.Name)] = true
		}
	}
	if len(want) < 50 {
		t.Errorf("%d resources", len(want))
	}
	for _, s := range w.series(t) {
		for label := range want {
			if strings.HasPrefix(s, "apiserver_request_total{") && strings.Contains(s, label) {
				delete(want, label)
			}
		}
	}
	for label := range want {
		t.Errorf("no requests are counted of %s", label)
	}
}
