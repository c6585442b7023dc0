package traffic

import (
	"context"
	"errors"
	"net"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	discoverylisters "k8s.io/client-go/listers/discovery/v1"
	"k8s.io/client-go/tools/clientcmd"
)

// Route is where requests can go now, as host:port.
type Route func() []string

// Directory watches the addresses of one Service.
type Directory struct {
	namespace, service string
	slices             discoverylisters.EndpointSliceLister
	services           corelisters.ServiceLister
}

// Watch begins to watch, until ctx ends.
func Watch(ctx context.Context, kubeconfig, namespace, service string) (*Directory, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(namespace))
	d := &Directory{namespace: namespace, service: service,
		slices: factory.Discovery().V1().EndpointSlices().Lister(), services: factory.Core().V1().Services().Lister()}
	factory.Start(ctx.Done())
	within, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for _, synced := range factory.WaitForCacheSync(within.Done()) {
		if !synced {
			return nil, errors.New("the watches of a consumer did not begin")
		}
	}
	return d, nil
}

// Endpoints are the ready ones.
func (d *Directory) Endpoints() []string {
	all, err := d.slices.EndpointSlices(d.namespace).List(labels.Set{discoveryv1.LabelServiceName: d.service}.AsSelector())
	if err != nil {
		return nil
	}
	var out []string
	for _, s := range all {
		for _, e := range s.Endpoints {
			if len(s.Ports) == 1 && (e.Conditions.Ready == nil || *e.Conditions.Ready) {
				out = append(out, net.JoinHostPort(e.Addresses[0], strconv.Itoa(int(*s.Ports[0].Port))))
			}
		}
	}
	slices.Sort(out)
	return out
}

// Balancers are the addresses that the Service publishes.
func (d *Directory) Balancers() []string {
	s, err := d.services.Services(d.namespace).Get(d.service)
	if err != nil || s.Spec.Type != corev1.ServiceTypeLoadBalancer {
		return nil
	}
	var out []string
	for _, i := range s.Status.LoadBalancer.Ingress {
		out = append(out, net.JoinHostPort(i.IP, strconv.Itoa(int(s.Spec.Ports[0].Port))))
	}
	return out
}

// errNowhere is what happens to requests while nothing can take them.
var errNowhere = errors.New("the API names no address to send this to")

// roundRobin takes the addresses of a route in turn.
type roundRobin struct {
	route Route
	next  atomic.Uint64
}

func (r *roundRobin) pick() (string, error) {
	all := r.route()
	if len(all) == 0 {
		return "", errNowhere
	}
	return all[r.next.Add(1)%uint64(len(all))], nil
}
