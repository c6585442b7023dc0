//go:build linux

package lab

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/workqueue"
)

// balancerDelay is how long it takes to make a load balancer: longer than to start pods,
// as with providers.
const balancerDelay = 4 * time.Second

// balance gives Services of the type LoadBalancer addresses until ctx ends, as the
// provider of a cloud does; kube-proxy of the node answers to them.
func (n network) balance(ctx context.Context, kubeconfig string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[cache.ObjectName]())
	factory := informers.NewSharedInformerFactory(client, 0)
	services := factory.Core().V1().Services()
	enqueue := func(obj any) {
		if name, err := cache.ObjectToName(obj); err == nil {
			queue.AddAfter(name, balancerDelay)
		}
	}
	if _, err := services.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: enqueue, UpdateFunc: func(_, obj any) { enqueue(obj) },
	}); err != nil {
		return fmt.Errorf("watching Services: %w", err)
	}
	factory.Start(ctx.Done())
	context.AfterFunc(ctx, queue.ShutDown)
	go func() {
		for given := 0; ; {
			name, shutdown := queue.Get()
			if shutdown {
				return
			}
			s, err := services.Lister().Services(name.Namespace).Get(name.Name)
			if err == nil && s.Spec.Type == corev1.ServiceTypeLoadBalancer && len(s.Status.LoadBalancer.Ingress) == 0 && s.DeletionTimestamp == nil {
				given++
				s = s.DeepCopy()
				s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: n.balancer(1 + given%254)}}
				if _, err := client.CoreV1().Services(s.Namespace).UpdateStatus(ctx, s, metav1.UpdateOptions{}); err != nil {
					queue.AddRateLimited(name)
				}
			}
			queue.Done(name)
		}
	}()
	return nil
}
