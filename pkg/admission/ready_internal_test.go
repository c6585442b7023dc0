package admission

import (
	"context"
	"testing"
	"testing/synctest"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
)

// A server that has just started answers users before its informers have anything.
func TestWhichPhysicalClustersThereAreIsKnownBeforeAClaimGetsItsVolumes(t *testing.T) {
	for name, listed := range map[string]bool{"they are listed meanwhile": true, "they are not listed": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				answer := make(chan struct{})
				informer := controller.NewInformer("physicalclusters", &fleetv1alpha1.PhysicalCluster{}, controller.ListWatch{
					List: func(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) {
						select {
						case <-answer:
							return &fleetv1alpha1.PhysicalClusterList{}, nil
						case <-ctx.Done():
							return nil, ctx.Err()
						}
					},
					Watch: func(context.Context, metav1.ListOptions) (watch.Interface, error) { return watch.NewFake(), nil },
				}, controller.InformerOptions[*fleetv1alpha1.PhysicalCluster]{})
				go informer.Run(t.Context())
				p := &placing{decider: &decider{lookup: &lookup{physicalClusters: informer}}}
				known := make(chan error, 1)
				go func() { known <- p.knowFleet(t.Context()) }()
				synctest.Wait()
				select {
				case err := <-known:
					t.Fatalf("nothing is listed, and it is known: %v", err)
				default:
				}
				if listed {
					close(answer)
				}
				if err := <-known; (err == nil) != listed || err != nil && !apierrors.IsServiceUnavailable(err) {
					t.Errorf("listed: %t, %v", listed, err)
				}
			})
		})
	}
}
