package main

import (
	"context"
	"fmt"
	"sync"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
)

// reach follows how many ready endpoints Services have, as one who watches their slices.
type reach struct {
	mu sync.Mutex
	// slices has the ready endpoints of each, by namespace and service, then by slice.
	slices map[string]map[string]int
	// least is the smallest sum that was ever seen of a Service.
	least   map[string]int
	reports int
}

// watchReach begins with what is there, and follows until ctx ends.
func watchReach(ctx context.Context, client kubernetes.Interface) (*reach, error) {
	slices := client.DiscoveryV1().EndpointSlices(metav1.NamespaceAll)
	list, err := slices.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing slices: %w", err)
	}
	r := &reach{slices: map[string]map[string]int{}, least: map[string]int{}}
	for i := range list.Items {
		service, ready := r.note(&list.Items[i], readyIn(&list.Items[i]))
		r.least[service] = ready // all slices of it are noted by the end of the list
	}
	w, err := watchtools.NewRetryWatcherWithContext(ctx, list.ResourceVersion, &cache.ListWatch{WatchFuncWithContext: slices.Watch})
	if err != nil {
		return nil, fmt.Errorf("watching slices: %w", err)
	}
	go func() { // ends with ctx, which ends the watch
		defer w.Stop()
		for e := range w.ResultChan() {
			slice, ok := e.Object.(*discoveryv1.EndpointSlice)
			if !ok {
				continue
			}
			ready := readyIn(slice)
			if e.Type == watch.Deleted {
				ready = 0
			}
			r.mu.Lock()
			service, sum := r.note(slice, ready)
			if least, known := r.least[service]; !known || sum < least {
				r.least[service] = sum
			}
			r.reports++
			r.mu.Unlock()
		}
	}()
	return r, nil
}

// note returns the Service of a slice, and the sum of what is ready in all of its slices.
func (r *reach) note(slice *discoveryv1.EndpointSlice, ready int) (service string, sum int) {
	service = slice.Namespace + "/" + slice.Labels[discoveryv1.LabelServiceName]
	if r.slices[service] == nil {
		r.slices[service] = map[string]int{}
	}
	r.slices[service][slice.Name] = ready
	for _, n := range r.slices[service] {
		sum += n
	}
	return service, sum
}

// result is how many Services were followed, and the fewest ready endpoints that one had.
func (r *reach) result() (services, least, reports int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	least = -1
	for _, n := range r.least {
		if least < 0 || n < least {
			least = n
		}
	}
	return len(r.least), least, r.reports
}

// readyIn counts the ready endpoints of a slice.
func readyIn(slice *discoveryv1.EndpointSlice) (n int) {
	for _, e := range slice.Endpoints {
		if e.Conditions.Ready == nil || *e.Conditions.Ready {
			n++
		}
	}
	return n
}
