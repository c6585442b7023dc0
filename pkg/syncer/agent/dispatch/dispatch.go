// Package dispatch turns what the watches report into keys in the queues: what a change
// wakes is decided by syncer.WakeAbove, WakeBelow and WakeCopy, which keys these are is
// looked up in the view.
//
// It remembers nothing.
package dispatch

import (
	"github.com/kcp-dev/logicalcluster/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/view"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// Queues take keys; a key that waits already is one.
type Queues struct {
	Objects func(view.ObjectKey)
	Mirrors func(view.MirrorKey)
	// Orphans takes the name of an Orphan, Events the name of an event below.
	Orphans func(name string)
	// Isolation takes the name of a physical namespace.
	Isolation func(namespace string)
	Events    func(controller.Request)
	// Pods takes a logical cluster whose pods elsewhere are others, or may be.
	Pods func(controller.Request)
	// Imports takes the name of a Service that is imported, or may be.
	Imports func(controller.Request)
	// OrphansChanged is called when an Orphan came, went, or has another order.
	OrphansChanged func()
}

// Dispatcher connects a View with queues.
type Dispatcher struct {
	view   *view.View
	queues Queues
}

// New makes a Dispatcher.
func New(v *view.View, q Queues) *Dispatcher { return &Dispatcher{view: v, queues: q} }

// Start begins with all that is there already.
func (d *Dispatcher) Start() {
	d.view.Handle(view.Handlers{
		Above: d.Above, Below: d.Below, Copy: d.Copy, Orphan: d.orphan, Account: d.account, Import: d.queues.Imports, Pods: d.queues.Pods,
		Event: func(event *unstructured.Unstructured) { d.queues.Events(controller.RequestFor(event)) },
	})
}

// account: what its pods mount may be made now, or is not good any more.
func (d *Dispatcher) account(account controller.Request) {
	for _, key := range d.view.UsersOf(account) {
		d.queues.Objects(key)
	}
}

// All enqueues every object that has a copy: something changed that all rest on.
func (d *Dispatcher) All() {
	for _, kind := range d.view.Kinds().Kinds() {
		for obj := range d.view.Objects(kind.GroupVersionResource()) {
			d.queues.Objects(view.KeyOf(kind, obj))
		}
	}
	for _, name := range d.view.NamespacesBelow() {
		d.queues.Isolation(name)
	}
	for _, r := range d.view.Imports() {
		d.queues.Imports(r)
	}
}

// Above dispatches a change of an object in the control plane.
func (d *Dispatcher) Above(c syncer.Change) {
	obj := c.Latest()
	for _, w := range syncer.WakeAbove(c) {
		switch w.Wake {
		case syncer.WakeScaled:
			d.scaledBy(c.Kind, obj)
		case syncer.WakeMirror:
			d.mirror(c.Kind, w.UID)
		default:
			d.related(view.KeyOf(c.Kind, obj), w)
		}
	}
}

// Below dispatches a change of an object of the physical cluster.
func (d *Dispatcher) Below(c syncer.Change) {
	isCopy := func(obj *unstructured.Unstructured) bool { return d.view.IsCopy(c.Kind.GroupVersionResource(), obj) }
	for _, w := range syncer.WakeBelow(c, isCopy) {
		switch w.Wake {
		case syncer.WakeObject:
			d.queues.Objects(view.KeyOfMark(c.Kind, w.Mark))
		case syncer.WakeOrphans:
			d.list(d.view.OrphansByUID(w.UID))
		case syncer.WakeMirror:
			d.mirror(c.Kind, w.UID)
		case syncer.WakeOwned:
			d.OwnedBy(w.UID)
		case syncer.WakeIsolation:
			d.isolation(c)
		case syncer.WakeImport:
			d.queues.Imports(controller.Request{Cluster: w.Mark.Cluster, Namespace: w.Mark.Namespace, Name: w.Mark.Name})
		case syncer.WakeCarried:
			for _, key := range d.view.Unapplied(c.Kind) {
				d.queues.Objects(key)
			}
		case syncer.WakeService:
			for _, key := range d.view.LedBy(c.Latest().GetNamespace(), w.Service) {
				d.queues.Objects(key)
			}
		case syncer.WakeHost:
			for _, obj := range d.view.WantHost(c.Kind.GroupVersionResource(), w.Host) {
				d.queues.Objects(view.KeyOf(c.Kind, obj))
			}
		case syncer.WakeContents:
			d.contents(w.Mark.Cluster, w.Mark.Namespace)
		}
	}
}

func (d *Dispatcher) isolation(c syncer.Change) {
	d.queues.Isolation(syncer.PhysicalNamespaceOf(c.Latest()))
}

// Copy dispatches a change of the Copy of an object.
func (d *Dispatcher) Copy(key view.ObjectKey, c syncer.CopyChange) {
	for _, w := range syncer.WakeCopy(c) {
		if w.Wake == syncer.WakeNamespace {
			d.queues.Objects(view.KeyOfNamespace(key.Request.Cluster, c.Copy().Namespace))
			continue
		}
		d.related(key, w)
	}
}

// related enqueues what has a relation to an object of the control plane.
func (d *Dispatcher) related(key view.ObjectKey, w syncer.Woken) {
	switch w.Wake {
	case syncer.WakeObject:
		d.queues.Objects(key)
	case syncer.WakeClaims:
		d.list(d.view.OrphansByClaim(key))
	case syncer.WakeCopiesOwn:
		for _, copied := range d.view.Marked(key) {
			d.OwnedBy(copied.GetUID())
		}
	case syncer.WakeContents:
		d.contents(key.Request.Cluster, key.Request.Name)
	case syncer.WakeOwned:
		d.OwnedBy(w.UID)
	case syncer.WakeMarked:
		if kind, ok := d.view.ObservedKind(key.Resource); ok {
			for _, obj := range d.view.Marked(key) {
				d.mirror(kind, obj.GetUID())
			}
		}
	}
}

func (d *Dispatcher) mirror(kind workload.Kind, uid types.UID) {
	d.queues.Mirrors(view.MirrorKey{Resource: kind.GroupVersionResource(), UID: uid})
}

func (d *Dispatcher) list(orphans []*fleetv1alpha1.Orphan) {
	for _, o := range orphans {
		d.queues.Orphans(o.Name)
	}
}

// contents: what waited for the name of the physical namespace can go on, up and down.
// A Namespace that comes back after a list that lacked it is one, too.
func (d *Dispatcher) contents(c logicalcluster.Name, name string) {
	if namespace, ok := d.view.Namespace(c, name); ok && syncer.PhysicalName(namespace) != "" {
		for _, kind := range d.view.ObservedKinds() {
			for _, obj := range d.view.PhysicalIn(kind.GroupVersionResource(), syncer.PhysicalName(namespace)) {
				d.mirror(kind, obj.GetUID())
			}
		}
	}
	for _, kind := range d.view.Kinds().Kinds() {
		if kind.Role == workload.Container {
			continue
		}
		for _, obj := range d.view.ObjectsIn(kind.GroupVersionResource(), c, name) {
			d.queues.Objects(view.KeyOf(kind, obj))
		}
	}
}

func (d *Dispatcher) scaledBy(kind workload.Kind, scaler *unstructured.Unstructured) {
	scaled, name := syncer.Scales(kind, scaler)
	if kind, ok := d.view.Kinds().ByKind(scaled); ok {
		r := controller.RequestFor(scaler)
		r.Name = name
		d.queues.Objects(view.ObjectKey{Resource: kind.GroupVersionResource(), Request: r})
	}
}

// OwnedBy enqueues what an object below owns: it may have waited for the mirror of its
// owner, or is a copy that the owner adopted.
func (d *Dispatcher) OwnedBy(uid types.UID) {
	for _, kind := range d.view.ObservedKinds() {
		gvr := kind.GroupVersionResource()
		for _, obj := range d.view.Owned(gvr, uid) {
			if d.view.IsCopy(gvr, obj) {
				mark, _ := syncer.MarkOf(gvr.GroupResource(), obj)
				d.queues.Objects(view.KeyOfMark(kind, mark))
				continue
			}
			d.mirror(kind, obj.GetUID())
		}
	}
}

// orphan: a new order, or one of another.
func (d *Dispatcher) orphan(old, new *fleetv1alpha1.Orphan) {
	o := new
	if o == nil {
		o = old
	}
	d.queues.Orphans(o.Name)
	if key, ok := d.view.KeyOfClaim(o); ok && (old == nil || new == nil || old.Spec.Order != new.Spec.Order) {
		d.queues.Objects(key)
	}
	d.queues.OrphansChanged()
}
