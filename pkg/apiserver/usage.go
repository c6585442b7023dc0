package apiserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/client-go/dynamic"

	tenancy "github.com/atoll-dev/atoll/pkg/apis/tenancy/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/apiserver/limits"
	"github.com/atoll-dev/atoll/pkg/scope"
)

// counted is the check that what logical clusters keep is known: before, nothing is
// limited.
func counted(counter *limits.Counter) healthz.HealthChecker {
	return healthz.NamedCheck("usage", func(*http.Request) error {
		select {
		case <-counter.Counted():
			return nil
		default:
			return errors.New("what logical clusters keep is being counted")
		}
	})
}

// usageStatus is the status of LogicalClusters: read from the watch cache, written as
// anybody else would.
type usageStatus struct {
	clusters *logicalClusters
	objects  dynamic.Interface
}

// List implements limits.Status.
func (s usageStatus) List(ctx context.Context) ([]tenancy.LogicalCluster, error) {
	obj, err := s.clusters.List(scope.WithCluster(ctx, scope.Root), &internalversion.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return nil, fmt.Errorf("listing logical clusters: %w", err)
	}
	list, ok := obj.(*tenancy.LogicalClusterList)
	if !ok {
		return nil, fmt.Errorf("listing logical clusters: got a %T", obj)
	}
	return list.Items, nil
}

// Patch implements limits.Status.
func (s usageStatus) Patch(ctx context.Context, name string, kind types.PatchType, data []byte) error {
	_, err := s.objects.Resource(tenancy.SchemeGroupVersion.WithResource("logicalclusters")).
		Patch(scope.WithCluster(ctx, scope.Root), name, kind, data, metav1.PatchOptions{}, "status")
	return err
}
