package down

import (
	"context"
	"fmt"
	"time"

	nodev1 "k8s.io/api/node/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/connection"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/view"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// read gathers the input from the view. If that does not have the copy, that says
// little: one without our label, or somebody else's object, may be in its place.
func (p *pass) read() {
	known := p.memory.get(p.key)
	p.in = syncer.Input{
		Ref: p.key.Ref(p.kind), Target: p.View.Target, ControlPlane: p.View.ControlPlane, Kinds: p.View.Kinds(),
		Settled: known.settled, Reverts: known.reverts, Reported: known.reported, AppliedAt: known.applied, Counting: known.counting, LedSince: known.led,
		Permits: p.Permits(), Offered: p.Offered(), Classes: p.Classes, Server: p.Server(), Missing: p.missing, Owner: p.View.MirrorOf, Orphan: p.View.OrphanOrder,
	}
	if obj, ok := p.View.Object(p.key); ok {
		p.in.Logical, p.in.Withheld = syncer.Received(p.kind, obj, p.View.Target)
	}
	if c, ok := p.View.Copy(p.key); ok {
		p.in.Copy = c
	}
	if p.leaves() {
		p.memory.change(view.KeyOfNamespace(p.key.Request.Cluster, p.key.Request.Namespace), func(r *remembered) { r.asked = "" })
	}
	if p.in.Copy != nil && p.in.Copy.Status.State == placementv1alpha1.CopyRemoved {
		return // nothing is done until the server took note
	}
	p.in.Namespace = p.namespace()
	if p.in.Logical != nil {
		p.in.Account = p.View.Account(p.key.Request, syncer.AccountUsed(p.kind, p.in.Logical))
		if p.Supplies != nil && syncer.NeedsNames(p.kind, p.in.Logical.Object) {
			p.in.Nameserver = p.Supplies.Nameserver(p.key.Request.Cluster)
		}
	}
	if len(p.kind.Replicas) > 0 && p.in.Logical != nil {
		scalers := p.View.Scalers(p.key)
		p.in.Scaled, p.in.Bounds = syncer.Scaled(p.View.Target, scalers), syncer.BoundsOf(p.View.Target, scalers)
		p.in.ScalerWaits, p.in.ScalesFromNothing = syncer.ScalerWaits(p.View.Target, scalers), syncer.ScalesFromNothing(scalers)
	}
	p.readScaling()
	if p.kind.PodTemplate != nil && !p.kind.IsPod() {
		p.in.Made = p.View.Made
	}
	if p.in.Ref.IsNamespace() {
		p.in.Contents = p.contents()
		if p.in.Contents == 0 && syncer.Leaves(p.in) {
			p.in.Strays = p.strays()
		}
	}
	if !p.kind.Carries {
		p.readPhysical()
	}
	if p.kind.Addressed() {
		p.in.Nowhere = func(service string) bool { return p.View.LeadsNowhere(p.in.Namespace.Name, service) }
	}
	p.in.HostTaken = p.hostTaken()
}

// hostTaken is a host name of the object that another logical cluster has below, or is
// about to have.
func (p *pass) hostTaken() string {
	if p.kind.Semantics != workload.IngressSemantics || p.in.Logical == nil {
		return ""
	}
	hosts, cluster := syncer.Hosts(p.in.Logical), p.key.Request.Cluster.String()
	if p.in.Logical.GetDeletionTimestamp() != nil {
		p.hosts.release(cluster, hosts)
		return ""
	}
	there := p.View.WithHosts(p.key.Resource, hosts)
	below := syncer.TakenHost(p.key.Resource.GroupResource(), cluster, hosts, p.in.Physical, there)
	return p.hosts.take(cluster, hosts, below, syncer.HostsOf(p.key.Resource.GroupResource(), cluster, there), time.Now())
}

func (p *pass) readPhysical() {
	if !p.View.Served(p.key.Resource) {
		if p.in.Logical != nil {
			p.in.Failure = syncer.NotServed(p.key.Resource)
		}
		// It may be for a moment, or only not for us. Where nothing is recorded, nothing was made.
		p.in.Unproven = syncer.Leaves(p.in) && p.in.Copy != nil && p.in.Namespace.Name != ""
		p.in.Unseen = p.in.Unproven
		return
	}
	marked := view.First(p.View.Marked(p.key))
	if p.in.Namespace.Name == "" {
		// No record says where; what carries the mark of the object does.
		if marked != nil {
			p.in.Physical = marked
			p.in.Namespace = syncer.Namespace{Name: syncer.PhysicalNamespaceOf(marked), State: syncer.NamespaceReady}
		}
		return
	}
	if obj, ok := p.View.CopyBelow(p.key, p.physicalRequest()); ok {
		p.in.Physical = obj
		return
	}
	if p.in.Logical == nil && p.in.Copy == nil {
		p.in.Physical = marked
		return
	}
	p.in.Unseen = true
}

// namespace finds where the copy is, or goes, and what is known of that without asking.
func (p *pass) namespace() syncer.Namespace {
	logical, _ := p.View.Namespace(p.key.Request.Cluster, p.in.Ref.LogicalNamespace())
	place := p.Place(p.in, logical, p.made())
	if place.Disputed {
		p.View.DoubtNamespaces()
	}
	switch {
	case place.Name == "" || p.kind.Carries:
		return syncer.Namespace{State: syncer.NamespaceReady}
	case p.in.Ref.IsNamespace() && !place.Disputed:
		return syncer.Namespace{Name: place.Name, State: syncer.NamespaceReady}
	}
	key := view.KeyOfNamespace(p.key.Request.Cluster, p.in.Ref.LogicalNamespace())
	below, _ := p.View.CopyBelow(key, controller.Request{Name: place.Name})
	return place.In(below)
}

// made is the object with the UID that the Copy records, as the watch has it.
func (p *pass) made() *unstructured.Unstructured {
	if p.in.Copy == nil || p.in.Copy.Status.PhysicalUID == "" {
		return nil
	}
	return p.View.PhysicalByUID(p.key.Resource, p.in.Copy.Status.PhysicalUID)
}

// contents counts what keeps the physical namespace.
func (p *pass) contents() int {
	n := 0
	for key, c := range p.View.CopiesIn(p.key.Request.Cluster, p.key.Request.Name) {
		if key != p.key && syncer.KeepsNamespace(c, p.in.Namespace.Name) {
			n++
		}
	}
	return n
}

// strays counts what has a mark in the physical namespace, and no Copy that means it: what a server that was restored
// from a backup does not know, or what has not got its Copy yet.
func (p *pass) strays() int {
	n := 0
	for _, kind := range p.View.Kinds().Kinds() {
		if kind.Role == workload.Container || kind.Carries {
			continue
		}
		gvr := kind.GroupVersionResource()
		for _, obj := range p.View.PhysicalIn(gvr, p.in.Namespace.Name) {
			mark, ok := syncer.MarkOf(gvr.GroupResource(), obj)
			if !ok || obj.GetDeletionTimestamp() != nil || p.View.IsMirrored(gvr, obj.GetUID()) {
				continue
			}
			if c, ok := p.View.Copy(view.KeyOfMark(kind, mark)); !ok || !syncer.Means(c, obj.GetUID()) {
				n++
			}
		}
	}
	return n
}

var runtimeClasses = nodev1.SchemeGroupVersion.WithResource("runtimeclasses")

// readRuntimeClasses asks for what the physical cluster offers, for an object whose
// pods need a runtime of their own: few do.
func (p *pass) readRuntimeClasses(ctx context.Context) error {
	if p.in.Logical == nil || !syncer.NeedsRuntimeClass(p.kind, p.in.Logical) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, connection.RequestTimeout)
	defer cancel()
	list, err := p.Down.Dynamic.Resource(runtimeClasses).List(ctx, metav1.ListOptions{})
	switch {
	case syncer.IsSilence(err):
		return fmt.Errorf("listing runtime classes: %w", err)
	case err != nil: // who may not see them is offered none
		klog.FromContext(ctx).V(2).Info("Listing runtime classes failed", "err", err)
		return nil
	}
	var classes nodev1.RuntimeClassList
	for _, item := range list.Items {
		var class nodev1.RuntimeClass
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(item.Object, &class); err != nil {
			continue // what is no class is offered by nobody
		}
		classes.Items = append(classes.Items, class)
	}
	p.in.RuntimeClasses = syncer.RuntimeClasses(classes.Items, p.in.Permits)
	return nil
}
