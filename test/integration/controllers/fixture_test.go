package controllers

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/test/framework/server"
)

// waitTimeout bounds every wait; an idle machine needs a fraction of it.
const waitTimeout = 30 * time.Second

// TestControllers runs all tests against one server, in parallel.
func TestControllers(t *testing.T) {
	s := server.Start(t)
	t.Run("group", func(t *testing.T) {
		for name, test := range map[string]func(*testing.T, *server.Server){
			"a logical cluster is usable when its creation returns":              testBirth,
			"owners are cluster-admin inside":                                    testOwners,
			"a deleted logical cluster leaves nothing behind":                    testDeath,
			"what holds a deleted logical cluster is reported":                   testHeldDeath,
			"root cannot be deleted":                                             testRootStays,
			"a deleted namespace is emptied and goes":                            testNamespace,
			"a namespace waits for finalizers of its content":                    testHeldNamespace,
			"a namespace loses its workloads before its pods, and the rest last": testWorkloadsFirst,
			"default service account and root CA are made again":                 testDefaults,
			"dependents go in the background":                                    testBackground,
			"dependents go before their owner in a foreground deletion":          testForeground,
			"orphaned dependents stay":                                           testOrphan,
			"an owner in another namespace or logical cluster is absent":         testForeignOwners,
			"a cluster-scoped object with an owner in a namespace stays":         testUnanswerableOwner,
			"an object goes with the last of its owners":                         testTwoOwners,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(t, s)
			})
		}
	})
}

// cluster makes a logical cluster and returns a context about it.
func cluster(t *testing.T, s *server.Server, name string) context.Context {
	t.Helper()
	return s.NewCluster(t, name)
}

func inRoot(t *testing.T) context.Context { return inCluster(t, scope.Root) }

func inCluster(t *testing.T, name logicalcluster.Name) context.Context {
	return scope.WithCluster(t.Context(), name)
}

func makeNamespace(t *testing.T, s *server.Server, ctx context.Context, name string) {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := s.Kube.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// makeConfigMap makes a config map with owners.
func makeConfigMap(t *testing.T, s *server.Server, ctx context.Context, namespace, name string, owners ...metav1.OwnerReference) *corev1.ConfigMap {
	t.Helper()
	cm, err := s.Kube.CoreV1().ConfigMaps(namespace).Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: owners},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return cm
}

func ownedBy(cm *corev1.ConfigMap) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: cm.Name, UID: cm.UID}
}

func blocking(ref metav1.OwnerReference) metav1.OwnerReference {
	yes := true
	ref.BlockOwnerDeletion = &yes
	return ref
}

func deleteConfigMap(t *testing.T, s *server.Server, ctx context.Context, cm *corev1.ConfigMap, policy metav1.DeletionPropagation) {
	t.Helper()
	err := s.Kube.CoreV1().ConfigMaps(cm.Namespace).Delete(ctx, cm.Name, metav1.DeleteOptions{PropagationPolicy: &policy})
	if err != nil {
		t.Fatal(err)
	}
}

// gone returns nil if get says that the object does not exist.
func gone(get func() error) error {
	err := get()
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err == nil:
		return errors.New("it is still there")
	default:
		return err
	}
}

func configMapGone(s *server.Server, ctx context.Context, cm *corev1.ConfigMap) error {
	return gone(func() error { return configMapThere(s, ctx, cm) })
}

func configMapThere(s *server.Server, ctx context.Context, cm *corev1.ConfigMap) error {
	now, err := s.Kube.CoreV1().ConfigMaps(cm.Namespace).Get(ctx, cm.Name, metav1.GetOptions{})
	if err == nil && now.UID != cm.UID {
		return fmt.Errorf("config map %s is another", cm.Name)
	}
	return err
}

// settled returns when the garbage collector has handled all that was there: it
// has collected an object that was made last.
func settled(t *testing.T, s *server.Server, ctx context.Context) {
	t.Helper()
	cm := makeConfigMap(t, s, ctx, "default", "last-"+fmt.Sprint(time.Now().UnixNano()),
		metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "never", UID: "never"})
	server.Eventually(t, waitTimeout, "the collector catches up", func() error { return configMapGone(s, ctx, cm) })
}
