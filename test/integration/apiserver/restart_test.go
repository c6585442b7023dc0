// Package apiserver tests the server as its clients see it.
package apiserver

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/test/framework/server"
)

func TestRestartKeepsEqualNamesInTwoLogicalClusters(t *testing.T) {
	dir := t.TempDir()
	s := server.StartIn(t, dir)
	names := []string{"one", "two"}
	for _, cluster := range names {
		ctx := s.NewCluster(t, cluster)
		for i := range 5 {
			cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("same-", i)}, Data: map[string]string{"in": cluster}}
			if _, err := s.Kube.CoreV1().ConfigMaps("default").Create(ctx, cm, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	s.Stop(t)

	s = server.StartIn(t, dir)
	for _, cluster := range names {
		ctx := scope.With(t.Context(), scope.Scope{Cluster: "one"})
		ctx = scope.With(ctx, scope.Scope{Cluster: scopeName(cluster)})
		// Resource version 0 is answered from the watch cache, which a restart
		// fills anew.
		list, err := s.Kube.CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{ResourceVersion: "0", LabelSelector: ""})
		if err != nil {
			t.Fatal(err)
		}
		got := 0
		for _, cm := range list.Items {
			if cm.Name == "kube-root-ca.crt" {
				continue
			}
			got++
			if cm.Data["in"] != cluster {
				t.Errorf("logical cluster %s shows an object of %s", cluster, cm.Data["in"])
			}
		}
		if got != 5 {
			t.Errorf("logical cluster %s shows %d of 5 config maps after a restart", cluster, got)
		}
	}
}

func TestUnknownLogicalClusterIsNotFoundByName(t *testing.T) {
	s := server.Start(t)
	ctx := scope.WithCluster(t.Context(), "nowhere")
	_, err := s.Kube.CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("want NotFound, got %v", err)
	}
	body, _ := s.Kube.CoreV1().RESTClient().Get().AbsPath("/api/v1/namespaces").Do(ctx).Raw()
	if want := `logical cluster \"nowhere\" not found`; !contains(body, want) {
		t.Errorf("the answer %s does not say %s", body, want)
	}
}
