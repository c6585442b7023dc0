package apiserver

import (
	"fmt"
	"net/url"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
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

// Who deletes all that there is in the namespace default deletes the Service of the server, too, which comes back as on any
// cluster; and it leads to where the server is after it was started elsewhere.
func TestTheServiceOfTheServerComesBackAndFollowsTheServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := server.StartIn(t, dir)
	ctx := s.NewCluster(t, "shop")
	leadsToServer := func() error {
		service, err := s.Kube.CoreV1().Services("default").Get(ctx, "kubernetes", metav1.GetOptions{})
		if err != nil {
			return err
		}
		at, err := url.Parse(s.Config.Host)
		if err != nil {
			return err
		}
		if got := service.Spec.Ports[0].TargetPort.String(); got != at.Port() || service.Spec.ClusterIP != "10.96.0.1" {
			return fmt.Errorf("it leads from %s to port %s, the server is at %s", service.Spec.ClusterIP, got, at.Port())
		}
		return nil
	}
	if err := leadsToServer(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.Kube.CoreV1().Services("default").Delete(ctx, "kubernetes", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the Service is there again", leadsToServer)
	}
	cidrs := s.Kube.NetworkingV1().ServiceCIDRs()
	if err := cidrs.Delete(ctx, "kubernetes", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the ServiceCIDR is there again", func() error {
		cidr, err := cidrs.Get(ctx, "kubernetes", metav1.GetOptions{})
		if err == nil && !meta.IsStatusConditionTrue(cidr.Status.Conditions, "Ready") {
			err = fmt.Errorf("it says %+v", cidr.Status)
		}
		return err
	})
	s.Stop(t)
	s = server.StartIn(t, dir)
	eventually(t, "the Service leads to the server", leadsToServer)
}
