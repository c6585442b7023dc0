package controller

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/backends"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/placed"
	"github.com/atoll-dev/atoll/pkg/placement/transition"
	"github.com/atoll-dev/atoll/pkg/placement/units"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// state reads a unit in a transition, with the objects that do not have the targets of
// the phase, in the order in which they are stamped.
func (c *Controller) state(ctx context.Context, u *unit, from string) (transition.State, []stamped, error) {
	s := transition.State{Decided: stamp.Decided(u.placement).Names(), NotReady: map[string]string{}, GivenUp: map[string]bool{}, Now: c.Clock.Now()}
	objects, held, err := c.members(ctx, u, from)
	if err != nil {
		return s, nil, err
	}
	s.Held = held
	// Last: what has just become available is to count.
	copies, err := c.copiesOf(ctx, u, from)
	if err != nil {
		return s, nil, err
	}
	var stale []stamped
	selects := false
	s.Unknown = unknown(objects, copies)
	for i := range objects {
		objects[i].Copies = copies[string(objects[i].Logical.GetUID())]
	}
	c.handOver(objects)
	for _, object := range objects {
		kind, o := object.Kind, object.Logical
		if stamp.HasTargets(o) {
			s.Objects = append(s.Objects, object)
		}
		selects = selects || kind.Semantics == workload.ServiceSemantics
		if !object.Behind(u.key.Cluster) {
			continue
		}
		partial := &metav1.PartialObjectMetadata{}
		partial.Name, partial.Namespace = o.GetName(), o.GetNamespace()
		one := stamped{resource: kind.GroupVersionResource(), kind: kind, object: partial}
		stale = append(stale, one)
	}
	s.Stale = len(stale)
	names, t := s.Decided, c.transitionOf(u)
	if t != nil {
		names = slices.Concat(names, t.From)
	}
	for _, name := range names {
		s.NotReady[name], s.GivenUp[name] = c.notReady(name), c.forgotten(name)
	}
	if selects {
		if s.Endpoints, err = c.endpoints(ctx, u, from); err != nil {
			return s, nil, err
		}
	}
	s.DrainsSince = c.moves.drainsSince(u.key, t, len(stale) == 0 && len(s.Published(t)) == 0, s.Now)
	sortStamped(stale)
	return s, stale, nil
}

// unknown are the physical clusters on which something has a copy that is not among objects.
func unknown(objects []transition.Object, copies map[string]map[string]*placementv1alpha1.Copy) map[string]bool {
	rest := maps.Clone(copies)
	for _, o := range objects {
		delete(rest, string(o.Logical.GetUID()))
	}
	out := map[string]bool{}
	for _, all := range rest {
		for name, one := range all {
			out[name] = out[name] || one.Status.State != placementv1alpha1.CopyRemoved
		}
	}
	return out
}

// members reads the objects of a unit, with where each is to be. held are the physical
// clusters on which other objects of the namespace have copies.
func (c *Controller) members(ctx context.Context, u *unit, from string) (_ []transition.Object, held map[string]bool, _ error) {
	var all []transition.Object
	var placed []units.Object
	others := []stamp.Other{}
	for _, kind := range workload.In(c.Kinds, u.key.Cluster).Kinds() {
		objects, err := c.objectsOf(ctx, kind, u, from)
		if err != nil {
			return nil, nil, err
		}
		for _, o := range objects {
			all = append(all, transition.Object{Kind: kind, Logical: o})
			if stamp.MayBeOther(kind) {
				others = append(others, stamp.Other{Kind: kind, Unstructured: o})
			}
			if kind.Role == workload.Placed {
				placed = append(placed, units.Object{Kind: kind, Unstructured: o})
			}
		}
	}
	by := u.split
	if u.divided() {
		if from == live || from == known {
			var err error
			if by, err = c.divideLive(ctx, u); err != nil {
				return nil, nil, err
			}
		}
		by.assign(placed)
	}
	var out []transition.Object
	held = map[string]bool{}
	for _, o := range all {
		names, _ := by.unitsOf(o.Kind, o.Logical)
		if !by.mine(names) || by.waits(o.Kind, o.Logical, names) {
			for _, name := range stamp.Kept(o.Logical) {
				held[name] = true
			}
			continue
		}
		o.Unit, o.Unrecorded = by.merge(names), by.unrecorded(o.Kind, o.Logical, names)
		o.Division, o.Overrides = by.division(names), by.overrides(names)
		out = append(out, o)
	}
	wish(out, others)
	scalers := stamp.ScalersOf(others)
	for i := range out {
		out[i].Scalers = scalers
	}
	return out, held, nil
}

// objectsOf reads the objects of one kind in the namespace of a unit; of referenced kinds the metadata only.
func (c *Controller) objectsOf(ctx context.Context, kind workload.Kind, u *unit, from string) ([]*unstructured.Unstructured, error) {
	if from == reported {
		from = cached
	}
	if from != live && kind.Role != workload.Container && !(from == known && bearsTraffic(kind)) {
		// Of most kinds there is nothing. Who looks again and again need not ask for that: what
		// comes is an event, and before anything is taken away all kinds are read.
		if informer := placed.Of(c.Objects, kind); informer != nil && !informer.HasNamespace(u.key.Cluster, u.key.Namespace) {
			return nil, nil
		}
		if from == known {
			from = live
		}
	}
	if from == known {
		from = live
	}
	if from != cached {
		return c.listOf(ctx, kind, u, from)
	}
	return c.remembered(ctx, kind, u)
}

// bearsTraffic says that objects of a kind make pods, or lead to them. All of these are read before
// traffic is withdrawn: an informer that was behind with Deployments, and not with Services, would
// have a Service that looks as if it had no pods to wait for.
func bearsTraffic(kind workload.Kind) bool { return kind.PodTemplate != nil || kind.Addressed() }

// listOf asks for the objects of one kind in the namespace of a unit.
func (c *Controller) listOf(ctx context.Context, kind workload.Kind, u *unit, from string) ([]*unstructured.Unstructured, error) {
	client := c.Dynamic.Resource(kind.GroupVersionResource())
	if kind.Role == workload.Container {
		o, err := client.Get(ctx, u.key.Namespace, metav1.GetOptions{ResourceVersion: from})
		if err != nil {
			return nil, fmt.Errorf("reading the namespace: %w", err)
		}
		return []*unstructured.Unstructured{o}, nil
	}
	if kind.Role == workload.Referenced {
		return c.metadataOf(ctx, kind, u, from)
	}
	list, err := client.Namespace(u.key.Namespace).List(ctx, metav1.ListOptions{ResourceVersion: from})
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", kind.Resource, err)
	}
	out := make([]*unstructured.Unstructured, 0, len(list.Items))
	places := workload.Places(c.Kinds, u.key.Cluster, kind)
	for i := range list.Items {
		if places || stamp.HasTargets(&list.Items[i]) {
			out = append(out, &list.Items[i])
		}
	}
	return out, nil
}

// metadataOf reads no content: that of Secrets and ConfigMaps is not needed here.
func (c *Controller) metadataOf(ctx context.Context, kind workload.Kind, u *unit, from string) ([]*unstructured.Unstructured, error) {
	list, err := c.Metadata.Resource(kind.GroupVersionResource()).Namespace(u.key.Namespace).List(ctx, metav1.ListOptions{ResourceVersion: from})
	if err != nil {
		return nil, fmt.Errorf("reading the metadata of %s: %w", kind.Resource, err)
	}
	var out []*unstructured.Unstructured
	for i := range list.Items {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&list.Items[i])
		if err != nil {
			return nil, fmt.Errorf("reading the metadata of %s %s: %w", kind.Kind, list.Items[i].Name, err)
		}
		out = append(out, &unstructured.Unstructured{Object: content})
	}
	return out, nil
}

// copiesOf are the Copies of the namespace of a unit by the UID of the object and by target.
func (c *Controller) copiesOf(ctx context.Context, u *unit, from string) (map[string]map[string]*placementv1alpha1.Copy, error) {
	list := c.Copies.ListNamespace(u.key.Cluster, u.key.Namespace)
	if from != cached {
		read, err := c.Client.PlacementV1alpha1().Copies(u.key.Namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, fmt.Errorf("reading Copies: %w", err)
		}
		list = nil
		for i := range read.Items {
			list = append(list, &read.Items[i])
		}
	}
	out := map[string]map[string]*placementv1alpha1.Copy{}
	for _, one := range list {
		uid := string(one.Spec.Object.UID)
		if out[uid] == nil {
			out[uid] = map[string]*placementv1alpha1.Copy{}
		}
		out[uid][one.Spec.PhysicalCluster] = one
	}
	return out, nil
}

// notReady says why a physical cluster is no replacement; empty if it is one.
func (c *Controller) notReady(name string) string {
	pc, ok := c.PhysicalClusters.Get(controller.Request{Cluster: scope.Root, Name: name})
	if !ok {
		return "there is no such physical cluster"
	}
	if pc.Spec.Forget {
		return "the physical cluster was given up"
	}
	switch ready := meta.FindStatusCondition(pc.Status.Conditions, fleetv1alpha1.ConditionReady); {
	case ready == nil:
		return "the physical cluster is not known to be ready"
	case ready.Status != metav1.ConditionTrue:
		return fmt.Sprintf("the physical cluster is not known to be ready (%s)", ready.Reason)
	}
	return ""
}

// endpoints counts the ready endpoints that physical clusters report, by Service and target.
func (c *Controller) endpoints(ctx context.Context, u *unit, from string) (map[string]map[string]int, error) {
	switch from {
	case cached, reported:
		return c.rememberedEndpoints(ctx, u)
	}
	counts, _, err := c.readEndpoints(ctx, u, live)
	return counts, err
}

// readEndpoints asks for them.
func (c *Controller) readEndpoints(ctx context.Context, u *unit, from string) (counts map[string]map[string]int, versions []string, _ error) {
	list, err := c.Kube.DiscoveryV1().EndpointSlices(u.key.Namespace).List(ctx, metav1.ListOptions{ResourceVersion: from})
	if err != nil {
		return nil, nil, fmt.Errorf("reading EndpointSlices: %w", err)
	}
	type place struct{ service, target, backend string }
	counted := map[place]bool{}
	counts = map[string]map[string]int{}
	for i := range list.Items {
		slice := &list.Items[i]
		versions = append(versions, version(slice))
		service := slice.Labels[discoveryv1.LabelServiceName]
		for name, entry := range stamp.TargetsOf(slice.Annotations) {
			if entry.State != placementv1alpha1.TargetObserved { // a user wrote it: it says what it says everywhere
				continue
			}
			for _, e := range slice.Endpoints {
				at := place{service, name, backendOf(e)}
				if e.Conditions.Ready != nil && !*e.Conditions.Ready || counted[at] {
					continue
				}
				if counted[at] = true; counts[service] == nil {
					counts[service] = map[string]int{}
				}
				counts[service][name]++
			}
		}
	}
	return counts, versions, nil
}

// backendOf is who is behind an endpoint, who is counted once in whatever slices they are.
func backendOf(e discoveryv1.Endpoint) string {
	if pod, ok := backends.PodOf(e); ok {
		return "pod " + pod
	}
	return strings.Join(e.Addresses, " ")
}
