package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
)

// observer notes when it sees Deployments become what it waits for, each once.
type observer struct {
	is func(watch.EventType, *appsv1.Deployment) bool

	mu   sync.Mutex
	seen map[string]*observation
}

// observation is valid once done is closed.
type observation struct {
	done      chan struct{}
	at        time.Time
	by        kubernetes.Interface
	namespace string
}

// observe watches the Deployments of all clients until ctx ends.
func observe(ctx context.Context, is func(watch.EventType, *appsv1.Deployment) bool, clients ...kubernetes.Interface) (*observer, error) {
	o := &observer{is: is, seen: map[string]*observation{}}
	for _, client := range clients {
		deployments := client.AppsV1().Deployments(metav1.NamespaceAll)
		list, err := deployments.List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, fmt.Errorf("listing deployments: %w", err)
		}
		// A server ends the watch of a client that falls behind; this one goes on
		// where it was.
		w, err := watchtools.NewRetryWatcherWithContext(ctx, list.ResourceVersion, &cache.ListWatch{WatchFuncWithContext: deployments.Watch})
		if err != nil {
			return nil, fmt.Errorf("watching deployments: %w", err)
		}
		go func() { // ends with ctx, which ends the watch
			defer w.Stop()
			for e := range w.ResultChan() {
				if d, ok := e.Object.(*appsv1.Deployment); ok {
					o.note(client, e.Type, d, time.Now())
				}
			}
		}()
	}
	return o, nil
}

func (o *observer) note(by kubernetes.Interface, event watch.EventType, d *appsv1.Deployment, at time.Time) {
	if !o.is(event, d) {
		return
	}
	s := o.of(d.Name)
	o.mu.Lock()
	defer o.mu.Unlock()
	if s.by == nil {
		s.at, s.by, s.namespace = at, by, d.Namespace
		close(s.done)
	}
}

func (o *observer) of(name string) *observation {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.seen[name] == nil {
		o.seen[name] = &observation{done: make(chan struct{})}
	}
	return o.seen[name]
}

// stepTimeout is how long anything may take.
const stepTimeout = 2 * time.Minute

// await returns when and where the Deployment was seen.
func (o *observer) await(ctx context.Context, name string) (*observation, error) {
	s := o.of(name)
	select {
	case <-s.done:
		return s, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-time.After(stepTimeout):
		return nil, fmt.Errorf("deployment %s was not seen as expected within %s", name, stepTimeout)
	}
}

func exists(watch.EventType, *appsv1.Deployment) bool { return true }

func isGone(event watch.EventType, _ *appsv1.Deployment) bool { return event == watch.Deleted }

// markType is the type of a condition that nobody but the benchmark writes.
const markType = "Benchmarked"

func marked(_ watch.EventType, d *appsv1.Deployment) bool {
	for _, c := range d.Status.Conditions {
		if c.Type == markType {
			return true
		}
	}
	return false
}
