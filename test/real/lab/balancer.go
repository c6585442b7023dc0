//go:build linux

package lab

import (
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
)

// balancerDelay is how long it takes to make a load balancer: longer than to start pods,
// as with providers.
const balancerDelay = 4 * time.Second

// A load balancer passes on what comes to it once the port of the node has been open for so many checks in a row, and
// until it was not for as many: until then it refuses, whatever the API server says of the pods.
const (
	healthInterval = time.Second
	healthChecks   = 2
)

// balance gives Services of the type LoadBalancer addresses until ctx ends, as the
// provider of a cloud does, and passes what comes there to the port of the node.
func (n network) balance(ctx context.Context, client kubernetes.Interface) error {
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
				ip := n.balancer(1 + given%254)
				s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: ip, IPMode: ptr.To(corev1.LoadBalancerIPModeProxy)}}
				err := n.forward(ctx, ip, s.Spec.Ports)
				if err == nil {
					_, err = client.CoreV1().Services(s.Namespace).UpdateStatus(ctx, s, metav1.UpdateOptions{})
				}
				if err != nil {
					queue.AddRateLimited(name)
				}
			}
			queue.Done(name)
		}
	}()
	return nil
}

// forward takes connections at an address, until ctx ends, and passes them to the ports of
// the node that are healthy. A load balancer of a Service that has gone takes them, too, and has nowhere to
// pass them.
func (n network) forward(ctx context.Context, ip string, ports []corev1.ServicePort) error {
	if err := run("ip", "addr", "replace", ip+"/32", "dev", "lo"); err != nil {
		return err
	}
	for _, port := range ports {
		l, err := net.Listen("tcp", net.JoinHostPort(ip, strconv.Itoa(int(port.Port))))
		if err != nil {
			return fmt.Errorf("making a load balancer: %w", err)
		}
		context.AfterFunc(ctx, func() { _ = l.Close() })
		to := net.JoinHostPort(n.node(), strconv.Itoa(int(port.NodePort)))
		healthy := &atomic.Bool{}
		go check(ctx, to, healthy)
		go func() {
			for {
				outer, err := l.Accept()
				if err != nil {
					return
				}
				if !healthy.Load() {
					_ = outer.Close()
					continue
				}
				go pass(outer.(*net.TCPConn), to)
			}
		}()
	}
	return nil
}

// check notes whether a port of the node is healthy, until ctx ends.
func check(ctx context.Context, to string, healthy *atomic.Bool) {
	var last bool
	for same := 0; ctx.Err() == nil; {
		conn, err := net.DialTimeout("tcp", to, healthInterval)
		if err == nil {
			_ = conn.Close()
		}
		if open := err == nil; open == last {
			same++
		} else {
			last, same = open, 1
		}
		if same >= healthChecks {
			healthy.Store(last)
		}
		select {
		case <-ctx.Done():
		case <-time.After(healthInterval):
		}
	}
}

// pass copies both ways; the end of one side is passed on, too.
func pass(outer *net.TCPConn, to string) {
	defer func() { _ = outer.Close() }()
	conn, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	inner := conn.(*net.TCPConn)
	defer func() { _ = inner.Close() }()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(inner, outer)
		_ = inner.CloseWrite()
	}()
	_, _ = io.Copy(outer, inner)
	_ = outer.Close() // the server has ended: nothing that comes now is answered
	<-done
}
