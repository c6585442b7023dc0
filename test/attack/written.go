package attack

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/atoll-dev/atoll/pkg/scope"
)

// outside is an address that an admin permits, and none of a pod.
const outside = "192.0.2.7"

// led is a Service that leads where its user says.
var led = down{name: "led", manifest: "{apiVersion: v1, kind: Service, spec: {type: NodePort, ports: [{port: 80}]}}"}

// leadTo writes an EndpointSlice of it.
func (s *site) leadTo(ctx context.Context, name, address string) error {
	slice := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
		"ports": []any{map[string]any{"port": int64(10250)}}, "endpoints": []any{map[string]any{"addresses": []any{address}}},
	}}
	slice.SetName(name)
	slice.SetLabels(map[string]string{discoveryv1.LabelServiceName: led.name})
	_, err := s.above.Resource(endpointSlices).Namespace(s.namespace).Create(ctx, slice, metav1.CreateOptions{})
	return err
}

var endpointSlices = discoveryv1.SchemeGroupVersion.WithResource("endpointslices")

var writtenEndpoints = Attack{
	Name: "endpoints that a tenant writes lead ingress controllers and ports of nodes to no pod, and nowhere that the admin has not named",
	Real: true,
	Fence: func(ctx context.Context, w *World) error {
		if err := w.change(ctx, "east", []byte(`{"spec":{"tenancy":{"endpointCIDRs":["10.0.0.0/8","192.0.2.0/24"]}}}`)); err != nil {
			return err
		}
		return errors.Join(w.leadsOut(ctx), w.distrust(ctx, "east"))
	},
	// Who writes on the physical cluster itself leads to pods.
	Control: func(ctx context.Context, w *World) (err error) {
		ctx, s, err := w.siteAt(ctx, "east")
		if err != nil {
			return err
		}
		direct, err := s.directly(ctx)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, direct.remove(ctx, nil)) }()
		pod, err := w.podOn(ctx, "east")
		if err != nil {
			return err
		}
		if err := direct.create(ctx, led); err != nil {
			return err
		}
		if err := direct.leadTo(ctx, "led-1", pod); err != nil {
			return err
		}
		return direct.leads(ctx, pod)
	},
}

// leadsOut writes endpoints of all sorts, and waits for the one that is permitted to be alone on the
// physical cluster, and to go with its permit.
func (w *World) leadsOut(ctx context.Context) error {
	ctx, s, err := w.siteAt(ctx, "east")
	if err != nil {
		return err
	}
	pod, err := w.podOn(ctx, "east")
	if err != nil {
		return err
	}
	if err := s.create(ctx, led); err != nil {
		return err
	}
	for i, address := range []string{pod, "172.16.0.1", "203.0.113.7", outside} { // the last is the newest
		if err := s.leadTo(ctx, fmt.Sprintf("led-%d", i), address); err != nil {
			return fmt.Errorf("%s: %w", address, err)
		}
	}
	if err := s.leads(ctx, outside); err != nil {
		return err
	}
	if err := w.change(ctx, "east", []byte(`{"spec":{"tenancy":{"endpointCIDRs":["10.0.0.0/8"]}}}`)); err != nil {
		return err
	}
	return s.leads(ctx)
}

// podOn is an address that a pod on a physical cluster may have.
func (w *World) podOn(ctx context.Context, physical string) (address string, err error) {
	return address, eventually(ctx, "it says which addresses pods have", func() error {
		pc, err := w.admin.atoll.FleetV1alpha1().PhysicalClusters().Get(scope.WithCluster(ctx, scope.Root), physical, metav1.GetOptions{})
		if err != nil {
			return err
		}
		ranges := pc.Permits().Network.PodCIDRs
		if len(ranges) == 0 {
			return errors.New("it says none")
		}
		r, err := netip.ParsePrefix(ranges[0])
		address = r.Addr().Next().Next().Next().String() // the first ones may be of a node
		return err
	})
}

// leads waits until the Service leads to these addresses on the physical cluster, and to no other.
func (s *site) leads(ctx context.Context, want ...string) error {
	return eventually(ctx, fmt.Sprintf("the Service leads to %v", want), func() error {
		list, err := s.below.Resource(endpointSlices).Namespace(s.physicalNamespace).
			List(ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + led.name})
		if err != nil {
			return err
		}
		var got []string
		for _, slice := range list.Items {
			endpoints, _, _ := unstructured.NestedSlice(slice.Object, "endpoints")
			for _, e := range endpoints {
				if fields, ok := e.(map[string]any); ok {
					addresses, _, _ := unstructured.NestedStringSlice(fields, "addresses")
					got = append(got, addresses...)
				}
			}
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			return fmt.Errorf("it leads to %v", got)
		}
		return nil
	})
}
