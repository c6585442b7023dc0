package simulation

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/test/simulation/kube"
)

var endpointSlices = schema.GroupResource{Group: discoveryv1.GroupName, Resource: "endpointslices"}

// permittedEndpoints is what users may write endpoints in, where they do.
const permittedEndpoints = "192.0.2.0/24"

// lead: a user has a Service without a selector lead to what he writes, changes that, or takes it back.
// One that the Service may not lead to is sometimes among it.
func (w *World) lead(h Happening) {
	h.Resource = services
	u := newObject(services, h.Namespace, h.Name)
	w.create(h.key(), u, nil) // or there is one, which selects something
	addresses := []any{fmt.Sprintf("192.0.2.%d", 1+h.N%50), fmt.Sprintf("192.0.2.%d", 51+h.N%50)}[h.N%2:]
	if h.N%5 == 0 {
		addresses = append(addresses, "198.51.100.1")
	}
	h.Resource, h.Name = endpointSlices, h.Name+"-1"
	slice := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": discoveryv1.SchemeGroupVersion.String(), "kind": "EndpointSlice", "addressType": "IPv4",
		"endpoints": []any{map[string]any{"addresses": addresses}}, "ports": []any{map[string]any{"port": int64(80)}},
	}}
	slice.SetNamespace(h.Namespace)
	slice.SetName(h.Name)
	slice.SetLabels(map[string]string{discoveryv1.LabelServiceName: u.GetName()})
	if h.N%4 == 0 {
		w.remove(h.key(), h.N)
		return
	}
	w.ask(func(ctx context.Context, c dynamic.Interface) error {
		ctx, client := at(ctx, c, h.key())
		_, err := client.Create(ctx, slice, metav1.CreateOptions{})
		if !apierrors.IsAlreadyExists(err) {
			return err
		}
		there, err := client.Get(ctx, h.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		there.Object["endpoints"] = slice.Object["endpoints"]
		_, err = client.Update(ctx, there, metav1.UpdateOptions{})
		return err
	})
}

// led: at rest each copy of a Service without a selector leads to the endpoints that users wrote and
// that are permitted, and nothing else leads to these.
func (w *World) led(p *physical) {
	if !w.imports || !p.syncing() {
		return
	}
	want := map[string]map[string]bool{} // by namespace and name below
	for _, obj := range p.api.List(services) {
		s := cast(obj)
		m, marked := syncer.MarkOf(services, s)
		key, logical := w.api.ByUID(m.UID)
		if !marked || !labelled(s) || isClone(s) || logical == nil || s.GetDeletionTimestamp() != nil {
			continue
		}
		if target, here := targetsOf(logical)[p.name]; !here || !target.Keeps() {
			continue
		}
		if selector, _, _ := unstructured.NestedMap(cast(logical).Object, "spec", "selector"); len(selector) == 0 {
			want[s.GetNamespace()+"/"+s.GetName()] = w.writtenFor(key)
		}
	}
	got := map[string]map[string]bool{}
	for _, obj := range p.api.List(endpointSlices) {
		slice := cast(obj)
		if !syncer.IsImported(controlPlane, slice) {
			continue
		}
		of := slice.GetNamespace() + "/" + slice.GetLabels()[discoveryv1.LabelServiceName]
		for address := range endpointsOf(slice) {
			if netip.MustParsePrefix(permittedEndpoints).Contains(netip.MustParseAddr(address)) {
				if got[of] == nil {
					got[of] = map[string]bool{}
				}
				got[of][address] = true
			}
		}
	}
	for of := range got {
		if want[of] == nil {
			w.fail(Converges, "%s on %s leads to %v, and is no Service that users lead there", of, p.name, slices.Sorted(maps.Keys(got[of])))
		}
	}
	for of, addresses := range want {
		if !maps.Equal(got[of], addresses) && len(got[of])+len(addresses) > 0 {
			w.fail(Converges, "%s on %s leads to %v, users wrote %v", of, p.name, slices.Sorted(maps.Keys(got[of])), slices.Sorted(maps.Keys(addresses)))
		}
	}
}

// writtenFor are the addresses that users wrote for a Service, and that are permitted.
func (w *World) writtenFor(service kube.Key) map[string]bool {
	found := map[string]bool{}
	for _, obj := range w.api.ListNamespace(endpointSlices, service.Cluster, service.Namespace) {
		if cast(obj).GetLabels()[discoveryv1.LabelServiceName] != service.Name || obj.GetDeletionTimestamp() != nil {
			continue
		}
		for address := range endpointsOf(cast(obj)) {
			if netip.MustParsePrefix(permittedEndpoints).Contains(netip.MustParseAddr(address)) {
				found[address] = true
			}
		}
	}
	return found
}

// endpointsOf are the addresses in an EndpointSlice.
func endpointsOf(slice *unstructured.Unstructured) map[string]bool {
	found := map[string]bool{}
	endpoints, _, _ := unstructured.NestedSlice(slice.Object, "endpoints")
	for _, e := range endpoints {
		addresses, _, _ := unstructured.NestedStringSlice(e.(map[string]any), "addresses")
		for _, address := range addresses {
			found[address] = true
		}
	}
	return found
}
