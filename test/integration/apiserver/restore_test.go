package apiserver

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/google/go-cmp/cmp"

	"github.com/atoll-dev/atoll/cmd/atoll/app"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/test/framework/ports"
	"github.com/atoll-dev/atoll/test/framework/server"
)

// Clients that were connected before a backup was restored see what there is after it:
// stock informers of one logical cluster, and ours.
func TestInformersOverAServerThatIsRestoredFromABackupAreRight(t *testing.T) {
	dir, address := t.TempDir(), freeAddress(t)
	begin := func() *server.Server {
		return server.StartWith(t, func(o *app.Options) { o.DataDir, o.Listen = dir, address })
	}
	s := begin()
	one := s.NewCluster(t, "one")
	put := func(name, value string) {
		t.Helper()
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"test": "restore"}}, Data: map[string]string{"value": value}}
		if _, err := s.Kube.CoreV1().ConfigMaps("default").Create(one, cm, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	put("same", "old")
	put("deleted", "old")
	s.Stop(t)
	data, saved := filepath.Join(dir, "etcd"), filepath.Join(t.TempDir(), "saved")
	if err := os.CopyFS(saved, os.DirFS(data)); err != nil {
		t.Fatal(err)
	}

	s = begin()
	seen := informersOver(t, s, "one")
	if err := s.Kube.CoreV1().ConfigMaps("default").Delete(one, "deleted", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for i := range 200 { // more than what a start writes
		put(fmt.Sprintf("undone-%d", i), "new")
	}
	for name, list := range seen {
		server.Eventually(t, time.Minute, name+" are up to date", func() error {
			if n := len(list()); n != 201 {
				return fmt.Errorf("%d objects", n)
			}
			return nil
		})
	}
	s.Stop(t)
	if err := os.RemoveAll(data); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(data, os.DirFS(saved)); err != nil {
		t.Fatal(err)
	}

	s = begin()
	put("made", "newest")
	for name, list := range seen {
		server.Eventually(t, 2*time.Minute, name+" are right after the restoration", func() error {
			if diff := cmp.Diff([]string{"deleted old", "made newest", "same old"}, list()); diff != "" {
				return fmt.Errorf("(-want +got)\n%s", diff)
			}
			return nil
		})
	}
}

// informersOver runs informers until the test ends; each says what it has.
func informersOver(t *testing.T, s *server.Server, cluster string) map[string]func() []string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	scoped := scope.ScopedConfig(s.Config)
	selected := func(o *metav1.ListOptions) { o.LabelSelector = "test=restore" }
	options := controller.InformerOptions[*corev1.ConfigMap]{Tweak: selected}
	bare := controller.NewInformer("bare", &corev1.ConfigMap{}, controller.Lists(s.Kube.CoreV1().ConfigMaps("")), options)
	options.Server = controller.NewServer("restored", controller.ServerOptions{})
	options.Metadata = metadata.NewForConfigOrDie(scoped).Resource(corev1.SchemeGroupVersion.WithResource("configmaps")).List
	watched := controller.NewInformer("watched", &corev1.ConfigMap{}, controller.Lists(s.Kube.CoreV1().ConfigMaps("")), options)
	for _, i := range []*controller.Informer[*corev1.ConfigMap]{bare, watched} {
		go i.Run(ctx)
	}
	of := rest.CopyConfig(s.Config)
	of.Host += scope.Scope{Cluster: logicalcluster.Name(cluster)}.Path()
	factory := informers.NewSharedInformerFactoryWithOptions(kubernetes.NewForConfigOrDie(of), 0, informers.WithTweakListOptions(selected))
	stock := factory.Core().V1().ConfigMaps().Informer()
	factory.StartWithContext(ctx)
	return map[string]func() []string{
		"informers that nothing watches over": func() []string { return described(bare.List()) },
		"informers that are watched over":     func() []string { return described(watched.List()) },
		"stock informers": func() []string {
			var all []*corev1.ConfigMap
			for _, obj := range stock.GetStore().List() {
				if cm, ok := obj.(*corev1.ConfigMap); ok {
					all = append(all, cm)
				}
			}
			return described(all)
		},
	}
}

func described(objs []*corev1.ConfigMap) []string {
	out := make([]string, 0, len(objs))
	for _, cm := range objs {
		out = append(out, cm.Name+" "+cm.Data["value"])
	}
	slices.Sort(out)
	return out
}

func freeAddress(t *testing.T) string {
	t.Helper()
	address, err := ports.Address("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	return address
}
