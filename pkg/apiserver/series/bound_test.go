package series

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
)

func TestLabelsHaveTheValuesOfTheServer(t *testing.T) {
	t.Parallel()
	all := lists([]schema.GroupVersion{corev1.SchemeGroupVersion, appsv1.SchemeGroupVersion, networkingv1.SchemeGroupVersion}, scheme.Scheme)
	for label, want := range map[string][]string{
		"apiserver_request_total,group":       {"", "apps", "networking.k8s.io"},
		"apiserver_request_total,version":     {"", "v1"},
		"apiserver_request_total,resource":    {"", "pods", "endpoints", "ingresses", "networkpolicies", "deployments", "configmaps"},
		"apiserver_request_total,subresource": {"", "status", "scale", "log"},
		"apiserver_storage_objects,resource":  {"pods", "deployments.apps", "ingresses.networking.k8s.io"},
	} {
		for _, value := range want {
			if !slices.Contains(strings.Split(all[label], ","), value) {
				t.Errorf("%s: no %q in %.200s", label, value, all[label])
			}
		}
	}
	if names, ok := all["apiserver_admission_webhook_request_total,name"]; !ok || names != "" {
		t.Errorf("webhooks: %q, %v", names, ok)
	}
}
