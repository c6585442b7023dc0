package auth

import (
	"fmt"
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

var apiServices = apiregistrationv1.SchemeGroupVersion.WithResource("apiservices")

func available(obj *unstructured.Unstructured) (status, reason string) {
	conditions, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions")
	for _, c := range conditions {
		if m, ok := c.(map[string]any); ok && m["type"] == "Available" {
			status, _ = m["status"].(string)
			reason, _ = m["reason"].(string)
		}
	}
	return status, reason
}

func TestWhatIsServedIsShownAsLocalAPIServices(t *testing.T) {
	s := shared(t)
	ctx := s.NewCluster(t, "apiservices")
	client := s.Dynamic.Resource(apiServices)
	list, err := client.List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].GetName())
		if status, reason := available(&list.Items[i]); status != "True" || reason != "Local" {
			t.Errorf("%s: available %s, %s", list.Items[i].GetName(), status, reason)
		}
	}
	for _, name := range []string{"v1.", "v1.apps", "v1.apiregistration.k8s.io", "v1.apiextensions.k8s.io", "v1alpha1.placement.atoll.dev"} {
		if !slices.Contains(names, name) {
			t.Errorf("no %q in %v", name, names)
		}
	}
	if err := client.Delete(ctx, "v1.apps", metav1.DeleteOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("deleting what is built in: %v, want Forbidden", err)
	}
}

func TestAnAPIServiceOfAServiceThatIsMissingIsOfItsLogicalClusterAndHarmsNothing(t *testing.T) {
	s := shared(t)
	ctx, other := s.NewCluster(t, "aggregated"), s.NewCluster(t, "aggregated-other")
	client := s.Dynamic.Resource(apiServices)
	service := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": map[string]any{"name": "v1.metrics.example.org"},
		"spec": map[string]any{"group": "metrics.example.org", "version": "v1", "groupPriorityMinimum": int64(100), "versionPriority": int64(100), "insecureSkipTLSVerify": true,
			"service": map[string]any{"name": "metrics", "namespace": "default"}},
	}}
	if _, err := client.Create(ctx, service, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it says that it is not available", func() error {
		current, err := client.Get(ctx, service.GetName(), metav1.GetOptions{})
		if err != nil {
			return err
		}
		if status, reason := available(current); status != "False" || reason != "ServiceNotFound" {
			return fmt.Errorf("available %s, %s", status, reason)
		}
		return nil
	})
	if _, err := client.Get(other, "v1.metrics.example.org", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("in another logical cluster: %v, want NotFound", err)
	}
	// Discovery goes on without it.
	groups, err := client.List(ctx, metav1.ListOptions{})
	if err != nil || len(groups.Items) == 0 {
		t.Errorf("%v, %v", groups, err)
	}
	if _, err := s.Kube.Discovery().RESTClient().Get().AbsPath("/apis").DoRaw(ctx); err != nil {
		t.Errorf("discovery: %v", err)
	}
	if err := client.Delete(ctx, "v1.metrics.example.org", metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
}
