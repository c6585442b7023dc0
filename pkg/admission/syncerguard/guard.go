package syncerguard

import (
	"errors"
	"fmt"

	"github.com/kcp-dev/logicalcluster/v3"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// Verb is what a syncer does to an object.
type Verb string

const (
	Create Verb = "create"
	Update Verb = "update"
	Delete Verb = "delete"
)

// Write is one write of a syncer.
type Write struct {
	// Kinds are those that there are.
	Kinds workload.Catalog
	// Target is the physical cluster of the syncer.
	Target string
	// Forgotten says that the physical cluster was given up (spec.forget).
	Forgotten bool

	Cluster logicalcluster.Name
	Verb    Verb

	Resource        schema.GroupResource
	Subresource     string
	Namespace, Name string
	// Object is what is created or updated, Old what is updated or deleted; they
	// are nil where the verb has none, and where it is not known yet.
	Object, Old metav1.Object
}

var (
	copies           = placementv1alpha1.Resource("copies")
	podReviews       = placementv1alpha1.Resource("podreviews")
	physicalClusters = fleetv1alpha1.Resource("physicalclusters")
	orphans          = fleetv1alpha1.Resource("orphans")
	leases           = schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}
	accounts         = schema.GroupResource{Resource: "serviceaccounts"}
	signingRequests  = schema.GroupResource{Group: "certificates.k8s.io", Resource: "certificatesigningrequests"}
	events           = schema.GroupResource{Resource: "events"}
	eventsV1         = schema.GroupResource{Group: "events.k8s.io", Resource: "events"}
)

// mirrored reports whether a write is of an object that is mirrored from below: of a
// kind of the catalog, or an Event, which is about one of those.
func (w Write) mirrored() bool {
	if w.Resource == events || w.Resource == eventsV1 {
		return true
	}
	_, ok := w.Kinds.ObservedByResource(w.Resource)
	return ok
}

// stale says that an update was made from a version that is not the last one: storage
// refuses it as a conflict, and the syncer looks again. That the server wrote what is
// its own in the meantime is no misdeed of the syncer.
func (w Write) stale() bool {
	return w.Verb == Update && w.Object != nil && w.Old != nil &&
		w.Object.GetResourceVersion() != "" && w.Object.GetResourceVersion() != w.Old.GetResourceVersion()
}

// InNamespace reports whether a write is about the content of a namespace that
// must be placed on the syncer's physical cluster.
func InNamespace(w Write) bool { return w.Resource == copies || w.mirrored() }

// NamesPlace reports whether an update is of a Copy that did not say in which physical
// namespace its object is.
func NamesPlace(w Write) bool {
	old, ok := w.Old.(*placementv1alpha1.Copy)
	return ok && w.Resource == copies && old.Status.PhysicalNamespace == ""
}

// Check says why a write is not permitted; nil means that it is.
func Check(w Write) error {
	switch {
	case w.Cluster == scope.Root && w.Resource == physicalClusters:
		if w.Verb != Update || w.Subresource != "status" || w.Name != w.Target {
			return fmt.Errorf("the syncer of %s may only write the status of its own PhysicalCluster", w.Target)
		}
		for _, check := range []func(Write) error{checkSizes, checkVersion, checkIdentity} {
			if err := check(w); err != nil {
				return err
			}
		}
		return nil
	case w.Cluster == scope.Root && w.Resource == leases:
		if w.Verb == Delete || w.Namespace != fleetv1alpha1.LeaseNamespace || w.Name != w.Target {
			return fmt.Errorf("the syncer of %s may only renew its own Lease", w.Target)
		}
		return nil
	case w.Forgotten:
		// What it says has been declared gone: to record it again would start over.
		return fmt.Errorf("physical cluster %s was given up (spec.forget is set): its syncer may not write %s any more", w.Target, w.Resource)
	case w.Cluster == scope.Root && w.Resource == orphans:
		return checkOrphan(w)
	case w.Cluster == scope.Root && w.Resource == signingRequests && w.Verb == Create && w.Subresource == "":
		return nil // the registry says which: one that renews its own certificate
	case w.Cluster == scope.Root && w.Resource != copies && w.Resource != events:
		return fmt.Errorf("the syncer of %s may not write %s in root", w.Target, w.Resource)
	case w.Resource == accounts && w.Subresource == "token" && w.Verb == Create:
		return nil // the registry says which
	case w.Resource == podReviews && w.Verb == Create:
		return nil // who answers says of which pods
	case w.Resource == copies:
		return checkCopy(w)
	case w.mirrored():
		return checkObserved(w)
	}
	return fmt.Errorf("the syncer of %s may not write %s", w.Target, w.Resource)
}

// checkOrphan: a syncer lists what it finds on its own physical cluster, and says
// what becomes of the orders. The orders are an admin's, and whether the claimed
// object exists says the server.
func checkOrphan(w Write) error {
	if w.Verb == Update && w.Subresource != "status" || w.Verb != Update && w.Subresource != "" {
		return fmt.Errorf("the syncer of %s may only make, remove and write the status of Orphans; orders are for admins", w.Target)
	}
	var found [2]*fleetv1alpha1.Orphan
	for i, obj := range []metav1.Object{w.Object, w.Old} {
		if obj == nil {
			continue
		}
		o, ok := obj.(*fleetv1alpha1.Orphan)
		if !ok {
			return fmt.Errorf("unexpected type %T of an Orphan", obj)
		}
		if o.Spec.PhysicalCluster != w.Target {
			return fmt.Errorf("the syncer of %s may not write an Orphan of %s", w.Target, o.Spec.PhysicalCluster)
		}
		found[i] = o
	}
	switch written, old := found[0], found[1]; {
	case w.stale():
		return nil
	case w.Verb == Create && written != nil && written.Spec.Order != "":
		return fmt.Errorf("the syncer of %s may not give orders", w.Target)
	case w.Verb == Create && written != nil && written.Name != syncer.OrphanName(w.Target, written.Spec.Object.UID):
		return fmt.Errorf("an Orphan is named by the UID of the object on %s", w.Target)
	case w.Verb == Update && written != nil && old != nil && !equality.Semantic.DeepEqual(written.Status.Conditions, old.Status.Conditions):
		return fmt.Errorf("the syncer of %s may not write the conditions of an Orphan: the server does", w.Target)
	}
	return nil
}

func checkCopy(w Write) error {
	for _, obj := range []metav1.Object{w.Object, w.Old} {
		if obj == nil {
			continue
		}
		c, ok := obj.(*placementv1alpha1.Copy)
		if !ok {
			return fmt.Errorf("unexpected type %T of a Copy", obj)
		}
		if c.Spec.PhysicalCluster != w.Target {
			return fmt.Errorf("the syncer of %s may not write a Copy of %s", w.Target, c.Spec.PhysicalCluster)
		}
	}
	written, ok := w.Object.(*placementv1alpha1.Copy)
	old, had := w.Old.(*placementv1alpha1.Copy)
	if w.Verb == Update && ok && had && !w.stale() &&
		old.Status.PhysicalNamespace != "" && written.Status.PhysicalNamespace != old.Status.PhysicalNamespace {
		return fmt.Errorf("status.physicalNamespace of a Copy never changes: what it records is in %q, not in %q",
			old.Status.PhysicalNamespace, written.Status.PhysicalNamespace)
	}
	if w.Verb == Update && ok && had && !w.stale() && !sameCarried(old.Status.Carried, written.Status.Carried) {
		return errors.New("status.carried of a Copy never changes but for its version")
	}
	return nil
}

// sameCarried says that what a Manifest is on a target is not another object than what was recorded.
func sameCarried(old, written placementv1alpha1.CarriedObject) bool {
	if old == (placementv1alpha1.CarriedObject{}) {
		return true
	}
	old.Version = written.Version
	return old == written
}

// checkObserved: the syncer says which object below it mirrors, and from then
// on is the only syncer that writes it.
func checkObserved(w Write) error {
	if w.Verb == Create {
		if w.Subresource != "" {
			return fmt.Errorf("the syncer of %s may not write %s/%s", w.Target, w.Resource, w.Subresource)
		}
		if w.Object != nil && !named(w) {
			return fmt.Errorf("annotation %s is missing: it has the UID of the object on %s", placementv1alpha1.UIDAnnotation, w.Target)
		}
		return nil
	}
	if w.Old == nil {
		return nil // asked again once the object is known
	}
	target, ok := stamp.TargetsOf(w.Old.GetAnnotations())[w.Target]
	if !ok || target.State != placementv1alpha1.TargetObserved {
		return fmt.Errorf("the syncer of %s did not mirror %s %s", w.Target, w.Resource, w.Old.GetName())
	}
	return nil
}

// named reports whether a created object says which object below it mirrors:
// in the request by the UID annotation, once stamped by its target.
func named(w Write) bool {
	annotations := w.Object.GetAnnotations()
	target := stamp.TargetsOf(annotations)[w.Target]
	return annotations[placementv1alpha1.UIDAnnotation] != "" ||
		target.State == placementv1alpha1.TargetObserved && target.UID != ""
}
