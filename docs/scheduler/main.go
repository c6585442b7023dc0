// Cheapest is a scheduler of one's own: it puts each unit that a policy leaves to the
// scheduler "cheapest" on the physical cluster with the least number in the label "cost".
// It asks the server what is permitted, so it has no rules of its own but that one.
//
//	go run ./docs/scheduler -kubeconfig shop.kubeconfig
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	scheduler = "cheapest"
	version   = "placement.atoll.dev/v1alpha1"
	// retryInterval is how soon what failed, or had nowhere to go, is tried again.
	retryInterval = 10 * time.Second
)

var (
	placements = schema.GroupVersionResource{Group: "placement.atoll.dev", Version: "v1alpha1", Resource: "placements"}
	reviews    = placements.GroupVersion().WithResource("placementreviews")
	nodes      = schema.GroupVersionResource{Version: "v1", Resource: "nodes"}
)

func main() {
	kubeconfig := flag.String("kubeconfig", "", "that of the logical cluster")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *kubeconfig); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, kubeconfig string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	look := func(obj any) {
		if p, ok := obj.(*unstructured.Unstructured); ok && waits(p) {
			if err := bind(ctx, client, p); err != nil {
				fmt.Printf("%s/%s: %v\n", p.GetNamespace(), p.GetName(), err)
			}
		}
	}
	informers := dynamicinformer.NewDynamicSharedInformerFactory(client, retryInterval)
	if _, err := informers.ForResource(placements).Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: look, UpdateFunc: func(_, now any) { look(now) },
	}); err != nil {
		return err
	}
	informers.Start(ctx.Done())
	<-ctx.Done()
	informers.Shutdown()
	return nil
}

// waits says that a unit is ours, and is nowhere or may not stay where it is.
func waits(p *unstructured.Unstructured) bool {
	if name, _, _ := unstructured.NestedString(p.Object, "status", "schedulerName"); name != scheduler {
		return false
	}
	conditions, _, _ := unstructured.NestedSlice(p.Object, "status", "conditions")
	for _, c := range conditions {
		if c, ok := c.(map[string]any); ok && c["status"] == "False" && c["reason"] == "WaitsForScheduler" {
			return true
		}
	}
	return false
}

// bind asks what is permitted, and takes the cheapest of it.
func bind(ctx context.Context, client dynamic.Interface, p *unstructured.Unstructured) error {
	review, err := client.Resource(reviews).Namespace(p.GetNamespace()).Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": version, "kind": "PlacementReview", "spec": map[string]any{"unit": p.GetName()},
	}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	permitted, _, _ := unstructured.NestedStringSlice(review.Object, "status", "permitted")
	best, least := "", 0.0
	for _, name := range permitted {
		node, err := client.Resource(nodes).Get(ctx, name, metav1.GetOptions{}) // each physical cluster is a Node
		if err != nil {
			return err
		}
		if cost, err := strconv.ParseFloat(node.GetLabels()["cost"], 64); err == nil && (best == "" || cost < least) {
			best, least = name, cost
		}
	}
	if best == "" {
		return fmt.Errorf("no permitted physical cluster has a cost: %v", permitted)
	}
	_, err = client.Resource(placements).Namespace(p.GetNamespace()).Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": version, "kind": "PlacementBinding",
		"metadata":      map[string]any{"name": p.GetName(), "uid": string(p.GetUID())},
		"schedulerName": scheduler, "physicalClusters": []any{best},
	}}, metav1.CreateOptions{}, "binding")
	return err
}
