package native

import (
	"context"
	"testing"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage/storagebackend"

	fleet "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/apiserver/storage"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/test/framework/etcd"
)

// serve makes the storage of a kind over a real etcd.
func serve(t *testing.T, kind Kind) (*REST, *StatusREST) {
	t.Helper()
	scheme := testScheme()
	config := storagebackend.NewDefaultConfig("/registry", serializer.NewCodecFactory(scheme).LegacyCodec(kind.GroupVersion))
	config.Transport.ServerList = []string{etcd.Start(t)}
	config.CompactionInterval = 0
	gr := kind.WithResource(kind.Plural).GroupResource()
	getter := storage.NewRESTOptionsGetter(generic.RESTOptions{StorageConfig: config.ForResource(gr), ResourcePrefix: "/" + gr.Group + "/" + gr.Resource, EnableGarbageCollection: true, DeleteCollectionWorkers: 1}, storage.Options{})
	main, status, err := NewREST(scheme, getter, kind)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(main.Destroy)
	for deadline := time.Now().Add(30 * time.Second); main.Storage.Storage.ReadinessCheck() != nil; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the storage is not ready:", main.Storage.Storage.ReadinessCheck())
		}
	}
	return main, status
}

func within(t *testing.T, cluster logicalcluster.Name) context.Context {
	t.Helper()
	ctx := genericapirequest.WithNamespace(scope.With(t.Context(), scope.Scope{Cluster: cluster}), metav1.NamespaceNone)
	return genericapirequest.WithRequestInfo(ctx, &genericapirequest.RequestInfo{})
}

func TestAKindOfRootIsMadeInRootOnly(t *testing.T) {
	main, status := serve(t, PhysicalCluster())
	create := func(cluster logicalcluster.Name) error {
		_, err := main.Create(within(t, cluster), &fleet.PhysicalCluster{ObjectMeta: metav1.ObjectMeta{Name: "east"}}, rest.ValidateAllObjectFunc, &metav1.CreateOptions{})
		return err
	}
	if err := create("shop"); !apierrors.IsForbidden(err) {
		t.Errorf("creating one in a logical cluster of a tenant: %v, want Forbidden", err)
	}
	if err := create(scope.Root); err != nil {
		t.Errorf("creating one in root: %v", err)
	}

	change := rest.DefaultUpdatedObjectInfo(&fleet.PhysicalCluster{
		ObjectMeta: metav1.ObjectMeta{Name: "east"},
		Spec:       fleet.PhysicalClusterSpec{Unschedulable: true},
		Status:     fleet.PhysicalClusterStatus{Version: "v1.37.1"},
	})
	got, _, err := status.Update(within(t, scope.Root), "east", change, rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc, true, &metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if c := got.(*fleet.PhysicalCluster); c.Status.Version != "v1.37.1" || c.Spec.Unschedulable || c.Generation != 1 {
		t.Errorf("after a write of the status: %+v", c)
	}
	_, _, err = status.Update(within(t, scope.Root), "west", change, rest.ValidateAllObjectFunc, rest.ValidateAllObjectUpdateFunc, true, &metav1.UpdateOptions{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("a status of what is not there: %v, want NotFound", err)
	}
}
