package admission

import (
	"context"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
)

// A server that has just started answers users before its informers have anything.
func TestAUsersWriteWaitsUntilTheInformersAreIn(t *testing.T) {
	for name, listed := range map[string]bool{"they are listed meanwhile": true, "they are not listed": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				answer := make(chan struct{})
				listing := controller.NewInformer("physicalclusters", &fleetv1alpha1.PhysicalCluster{}, controller.ListWatch{
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
				go listing.Run(t.Context())
				c := &Chain{awaited: []informer{listing}}
				ready := make(chan error, 1)
				go func() { ready <- c.ready(t.Context()) }()
				synctest.Wait()
				select {
				case err := <-ready:
					t.Fatalf("nothing is listed, and it is ready: %v", err)
				default:
				}
				if listed {
					close(answer)
				}
				if err := <-ready; (err == nil) != listed {
					t.Errorf("listed: %t, %v", listed, err)
				}
			})
		})
	}
}

func TestAllInformersThatAdmissionReadsAreWaitedFor(t *testing.T) {
	var config Config
	fields := reflect.ValueOf(&config).Elem()
	var all []informer
	for i := range fields.NumField() {
		if field := fields.Field(i); field.Type().Implements(reflect.TypeFor[informer]()) {
			field.Set(reflect.New(field.Type().Elem()))
			all = append(all, field.Interface().(informer))
		}
	}
	awaited := config.informers()
	for _, one := range all {
		if !slices.Contains(awaited, one) {
			t.Errorf("%T is not waited for", one)
		}
	}
	if len(all) == 0 || len(all) != len(awaited) {
		t.Errorf("%d informers, of which %d are waited for", len(all), len(awaited))
	}
}
