package e2e

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// belowObserver watches, without a gap, what runs below: of the Deployment web how many pods are available on
// all physical clusters together, and on how many of them the StatefulSet one is to run.
type belowObserver struct {
	mu        sync.Mutex
	available map[string]int32
	ones      map[string]bool
	least     int32
	most      int
	history   []string
}

// observeBelow watches a physical namespace until the test ends. What is there when it begins counts.
func observeBelow(t *testing.T, namespace string, on ...*physicalCluster) *belowObserver {
	t.Helper()
	o := &belowObserver{available: map[string]int32{}, ones: map[string]bool{}, least: 1 << 30}
	for _, p := range on {
		config, err := clientcmd.BuildConfigFromFlags("", p.Kubeconfig)
		if err != nil {
			t.Fatal(err)
		}
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		deployments, err := client.AppsV1().Deployments(namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		o.least = 1 << 30 // what was counted without this one says nothing
		for i := range deployments.Items {
			o.deployment(p.name, &deployments.Items[i], false)
		}
		sets, err := client.AppsV1().StatefulSets(namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range sets.Items {
			o.set(p.name, &sets.Items[i], false)
		}
		dw, err := client.AppsV1().Deployments(namespace).Watch(t.Context(), metav1.ListOptions{ResourceVersion: deployments.ResourceVersion})
		if err != nil {
			t.Fatal(err)
		}
		sw, err := client.AppsV1().StatefulSets(namespace).Watch(t.Context(), metav1.ListOptions{ResourceVersion: sets.ResourceVersion})
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			for e := range dw.ResultChan() {
				if d, ok := e.Object.(*appsv1.Deployment); ok {
					o.deployment(p.name, d, e.Type == watch.Deleted)
				}
			}
		}()
		go func() {
			for e := range sw.ResultChan() {
				if s, ok := e.Object.(*appsv1.StatefulSet); ok {
					o.set(p.name, s, e.Type == watch.Deleted)
				}
			}
		}()
		t.Cleanup(func() { dw.Stop(); sw.Stop() })
	}
	return o
}

func (o *belowObserver) deployment(on string, d *appsv1.Deployment, gone bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if d.Name != "web" {
		return
	}
	if o.available[on] = d.Status.AvailableReplicas; gone || d.DeletionTimestamp != nil {
		delete(o.available, on)
	}
	sum := int32(0)
	for _, n := range o.available {
		sum += n
	}
	o.least = min(o.least, sum)
	o.history = append(o.history, fmt.Sprintf("%s web on %s: %d available, gone: %v; %d in all", time.Now().Format("15:04:05.000"), on, d.Status.AvailableReplicas, gone, sum))
}

func (o *belowObserver) set(on string, s *appsv1.StatefulSet, gone bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if s.Name != "one" {
		return
	}
	if o.ones[on] = true; gone {
		delete(o.ones, on)
	}
	o.most = max(o.most, len(o.ones))
	o.history = append(o.history, fmt.Sprintf("%s one on %s: %d replicas, gone: %v", time.Now().Format("15:04:05.000"), on, s.Status.Replicas, gone))
}

func (o *belowObserver) read() (least int32, most int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.least, o.most
}

// seen is all that was seen, a line each.
func (o *belowObserver) seen() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.Join(o.history, "\n")
}
