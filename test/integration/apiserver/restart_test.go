package apiserver

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kcp-dev/logicalcluster/v3"

	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/test/framework/server"
)

func TestRestartKeepsEqualNamesInTwoLogicalClusters(t *testing.T) {
	dir := t.TempDir()
	s := server.StartIn(t, dir)
	want := map[string][]string{}
	for _, cluster := range []string{"one", "two"} {
		ctx := s.NewCluster(t, cluster)
		for i := range 5 {
			cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("same-", i), Labels: map[string]string{"test": "restart"}}, Data: map[string]string{"in": cluster}}
			if _, err := s.Kube.CoreV1().ConfigMaps("default").Create(ctx, cm, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			want[cluster] = append(want[cluster], fmt.Sprintf("same-%d in %s", i, cluster))
		}
	}
	s.Stop(t)

	s = server.StartIn(t, dir)
	got := map[string][]string{}
	for cluster := range want {
		ctx := scope.WithCluster(t.Context(), logicalcluster.Name(cluster))
		// Resource version 0 is answered from the watch cache, which a restart
		// fills anew.
		list, err := s.Kube.CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{ResourceVersion: "0", LabelSelector: "test=restart"})
		if err != nil {
			t.Fatal(err)
		}
		for _, cm := range list.Items {
			got[cluster] = append(got[cluster], fmt.Sprintf("%s in %s", cm.Name, cm.Data["in"]))
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("after a restart (-want +got):\n%s", diff)
	}
}
