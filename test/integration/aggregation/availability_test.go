package aggregation

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/test/framework/server"
)

// freshness is what aggregated discovery says of v1 of a group, and how many
// resources it has; empty if it has no such group.
func freshness(ctx context.Context, s *server.Server, group string) (apidiscoveryv2.DiscoveryFreshness, int, error) {
	text, err := s.Kube.Discovery().RESTClient().Get().AbsPath("/apis").SetHeader("Accept", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList").DoRaw(ctx)
	if err != nil {
		return "", 0, err
	}
	var list apidiscoveryv2.APIGroupDiscoveryList
	if err := json.Unmarshal(text, &list); err != nil {
		return "", 0, err
	}
	for _, g := range list.Items {
		if g.Name == group {
			return g.Versions[0].Freshness, len(g.Versions[0].Resources), nil
		}
	}
	return "", 0, nil
}

func awaitFreshness(ctx context.Context, t *testing.T, s *server.Server, group string, want apidiscoveryv2.DiscoveryFreshness, resources int) {
	t.Helper()
	eventually(t, fmt.Sprintf("discovery says that %s is %s", group, want), func() error {
		if got, n, err := freshness(ctx, s, group); err != nil || got != want || n != resources {
			return fmt.Errorf("got %q with %d resources, %v", got, n, err)
		}
		return nil
	})
}

func tick(ctx context.Context, s *server.Server, e *extension, n int) error {
	// The check comes every 30 s, and at once if the APIService changes.
	patch := fmt.Sprintf(`{"spec":{"versionPriority":%d}}`, 10+n)
	_, err := s.Dynamic.Resource(apiServices).Patch(ctx, "v1."+e.group, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	return err
}

func TestAnUnavailableServerIsReportedHarmsNobodyAndComesBack(t *testing.T) {
	t.Parallel()
	s := shared(t)
	own, other := s.NewCluster(t, "down"), s.NewCluster(t, "down-other")
	e, fine := startExtension(t, "down.example.org"), startExtension(t, "fine.example.org")
	for _, ext := range []*extension{e, fine} {
		ext.register(own, t, s, "127.0.0.1")
		awaitAvailable(own, t, s, ext.group, "True", "Passed")
	}
	awaitFreshness(own, t, s, e.group, apidiscoveryv2.DiscoveryFreshnessCurrent, 1)

	e.answers(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "down", http.StatusInternalServerError) })
	if err := tick(own, s, e, 1); err != nil {
		t.Fatal(err)
	}
	message := awaitAvailable(own, t, s, e.group, "False", "FailedDiscoveryCheck")
	if !strings.Contains(message, "bad status 500") {
		t.Errorf("the message is %q", message)
	}
	client := s.Dynamic.Resource(e.resource())
	eventually(t, "requests are answered 503", func() error {
		if _, err := client.List(own, metav1.ListOptions{}); !apierrors.IsServiceUnavailable(err) {
			return fmt.Errorf("got %v", err)
		}
		return nil
	})
	awaitFreshness(own, t, s, e.group, apidiscoveryv2.DiscoveryFreshnessStale, 0)
	for title, ctx := range map[string]context.Context{"the rest of the logical cluster": own, "another logical cluster": other} {
		if _, err := s.Kube.CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{}); err != nil {
			t.Errorf("%s: %v", title, err)
		}
	}
	if _, err := s.Dynamic.Resource(fine.resource()).List(own, metav1.ListOptions{}); err != nil {
		t.Errorf("another aggregated API: %v", err)
	}

	e.answers(nil)
	awaitAvailable(own, t, s, e.group, "True", "Passed") // by itself
	awaitFreshness(own, t, s, e.group, apidiscoveryv2.DiscoveryFreshnessCurrent, 1)
	eventually(t, "requests are answered", func() error {
		_, err := client.List(own, metav1.ListOptions{})
		return err
	})
}

func TestAServerThatHangsKeepsNobodyWaitingAndNoLogicalCluster(t *testing.T) {
	t.Parallel()
	s := shared(t)
	own, other := s.NewCluster(t, "hangs"), s.NewCluster(t, "hangs-other")
	stop := make(chan struct{})
	for i := range 6 {
		e := startExtension(t, fmt.Sprintf("hangs%d.example.org", i))
		e.answers(func(_ http.ResponseWriter, req *http.Request) {
			select {
			case <-stop:
			case <-req.Context().Done():
			}
		})
		e.register(own, t, s, "127.0.0.1")
	}
	t.Cleanup(func() { close(stop) })
	fine := startExtension(t, "prompt.example.org")
	fine.register(other, t, s, "127.0.0.1")
	awaitAvailable(other, t, s, fine.group, "True", "Passed")
	if status, _, _, err := availability(own, s, "v1.hangs0.example.org"); err != nil || status == "True" {
		t.Errorf("the one that hangs is available=%s, %v", status, err)
	}
	root := scope.WithCluster(t.Context(), scope.Root)
	if err := s.Atoll.TenancyV1alpha1().LogicalClusters().Delete(root, "hangs", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the logical cluster goes", func() error {
		if _, err := s.Atoll.TenancyV1alpha1().LogicalClusters().Get(root, "hangs", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there: %v", err)
		}
		return nil
	})
}

func TestTheConditionSaysWhereAServiceLeads(t *testing.T) {
	t.Parallel()
	s := shared(t)
	own := s.NewCluster(t, "leads")
	apiService := func(group, service string) {
		create(own, t, s, apiServices, map[string]any{
			"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": map[string]any{"name": "v1." + group},
			"spec": map[string]any{
				"group": group, "version": "v1", "groupPriorityMinimum": int64(1000), "versionPriority": int64(10), "insecureSkipTLSVerify": true,
				"service": map[string]any{"namespace": "default", "name": service, "port": int64(443)},
			},
		})
	}
	apiService("none.example.org", "none")
	awaitAvailable(own, t, s, "none.example.org", "False", "ServiceNotFound")

	plain := func(name string, spec map[string]any) {
		create(own, t, s, services, map[string]any{"apiVersion": "v1", "kind": "Service", "metadata": map[string]any{"name": name, "namespace": "default"}, "spec": spec})
	}
	port := []any{map[string]any{"name": "https", "port": int64(443)}}
	plain("below", map[string]any{"selector": map[string]any{"app": "x"}, "ports": port})
	apiService("below.example.org", "below")
	if message := awaitAvailable(own, t, s, "below.example.org", "False", "EndpointsNotFound"); !strings.Contains(message, "it runs on a physical cluster, and no pod of its namespace has the labels that it selects (app=x)") {
		t.Errorf("the message is %q", message)
	}

	plain("written", map[string]any{"ports": port})
	apiService("written.example.org", "written")
	awaitAvailable(own, t, s, "written.example.org", "False", "EndpointsNotFound")
	create(own, t, s, schema.GroupVersionResource{Group: "discovery.k8s.io", Version: "v1", Resource: "endpointslices"}, map[string]any{
		"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
		"metadata":  map[string]any{"name": "written-1", "namespace": "default", "labels": map[string]any{"kubernetes.io/service-name": "written"}},
		"ports":     []any{map[string]any{"name": "https", "port": int64(8443)}},
		"endpoints": []any{map[string]any{"addresses": []any{"192.0.2.7"}}},
	})
	message := awaitAvailable(own, t, s, "written.example.org", "False", "FailedDiscoveryCheck")
	if !strings.Contains(message, "the control plane does not call 192.0.2.7:8443: its administrator may allow the address with --tenant-egress-allow") {
		t.Errorf("the message is %q", message)
	}
}

func TestGroupsOfTheServerCannotBeHandedOver(t *testing.T) {
	t.Parallel()
	s := shared(t)
	own := s.NewCluster(t, "reserved")
	service(own, t, s, "mine", "example.com")
	client := s.Dynamic.Resource(apiServices)
	for _, group := range []string{"apps", "apiextensions.k8s.io", "placement.atoll.dev"} {
		obj := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": map[string]any{"name": "v9." + group},
			"spec": map[string]any{"group": group, "version": "v9", "groupPriorityMinimum": int64(20000), "versionPriority": int64(100), "insecureSkipTLSVerify": true,
				"service": map[string]any{"namespace": "default", "name": "mine"}},
		}}
		if _, err := client.Create(own, obj, metav1.CreateOptions{}); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "is served by the control plane itself") {
			t.Errorf("a version of %s: %v", group, err)
		}
	}
	patch := `{"spec":{"insecureSkipTLSVerify":true,"service":{"namespace":"default","name":"mine"}}}`
	if _, err := client.Patch(own, "v1.apps", types.MergePatchType, []byte(patch), metav1.PatchOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("what is built in: %v", err)
	}
	if _, err := s.Kube.AppsV1().Deployments("default").List(own, metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
}

func TestARedirectIsNeitherFollowedNorPassedOn(t *testing.T) {
	t.Parallel()
	s := shared(t)
	own := s.NewCluster(t, "redirects")
	reached := make(chan struct{}, 16)
	inside := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached <- struct{}{} }))
	t.Cleanup(inside.Close)
	e := startExtension(t, "redirects.example.org")
	e.register(own, t, s, "127.0.0.1")
	awaitAvailable(own, t, s, e.group, "True", "Passed")
	e.answers(func(w http.ResponseWriter, req *http.Request) {
		http.Redirect(w, req, inside.URL, http.StatusTemporaryRedirect)
	})
	_, err := s.Dynamic.Resource(e.resource()).List(own, metav1.ListOptions{})
	if err == nil || !strings.Contains(err.Error(), "redirect") {
		t.Errorf("a redirect becomes %v", err)
	}
	if err := tick(own, s, e, 1); err != nil {
		t.Fatal(err)
	}
	awaitAvailable(own, t, s, e.group, "False", "FailedDiscoveryCheck")
	select {
	case <-reached:
		t.Error("the redirect was followed")
	default:
	}
}
