package syncer

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// Wake names what has to be looked at after a change, by its relation to what changed.
// Whoever holds the caches knows which keys these are.
type Wake string

const (
	// WakeObject is the object that changed above, or that a mark or a Copy names.
	WakeObject Wake = "Object"
	// WakeClaims are the Orphans that claim to be the copy of the object.
	WakeClaims Wake = "Claims"
	// WakeOrphans are those that list the object that changed below.
	WakeOrphans Wake = "Orphans"
	// WakeCopiesOwn is what the copies of the object own below.
	WakeCopiesOwn Wake = "CopiesOwn"
	// WakeContents is all that is in the Namespace, above and below.
	WakeContents Wake = "Contents"
	// WakeScaled is what the autoscaler scales.
	WakeScaled Wake = "Scaled"
	// WakeMirror is what is mirrored of the physical object with the UID.
	WakeMirror Wake = "Mirror"
	// WakeOwned is what the physical object with the UID owns.
	WakeOwned Wake = "Owned"
	// WakeMarked is what carries the mark of the object below: it may be mirrored now.
	WakeMarked Wake = "Marked"
	// WakeNamespace is the Namespace that the object is in.
	WakeNamespace Wake = "Namespace"
	// WakeIsolation are the policies that keep other logical clusters out of the physical
	// namespace, which is the object that changed or that it is in.
	WakeIsolation Wake = "Isolation"
	// WakeImport is what is made of the import of the Service.
	WakeImport Wake = "Import"
	// WakeCarried are the Manifests that could not be applied.
	WakeCarried Wake = "Carried"
	// WakeService is the Service whose copy has the name, in the physical namespace of what changed, and what
	// leads to pods by it.
	WakeService Wake = "Service"
	// WakeHost are the Ingresses that want a host name which is free now.
	WakeHost Wake = "Host"
)

// Woken is one thing that a change wakes.
type Woken struct {
	Wake Wake
	// UID is that of a physical object (WakeOrphans, WakeMirror, WakeOwned).
	UID types.UID
	// Mark names the object (WakeObject, WakeContents and WakeImport, of a change below).
	Mark Mark
	// Host is the name (WakeHost), Service another one (WakeService).
	Host, Service string
}

// Change is what a watch reports of one object; Old is nil if it is new, New if it is
// gone.
type Change struct {
	Target string
	Kind   workload.Kind
	// Placed and Observed say whether objects of the kind have copies, and whether they
	// are mirrored.
	Placed, Observed bool
	Old, New         *unstructured.Unstructured
	// Own says that New is what the syncer itself wrote.
	Own bool
}

// came says that an object is new to us, or back to life after a backup was restored.
func (c Change) came() bool {
	return c.New != nil && (c.Old == nil || c.Old.GetDeletionTimestamp() != nil && c.New.GetDeletionTimestamp() == nil)
}

// redirected says that the copy begins, or ends, to receive traffic.
func (c Change) redirected() bool {
	return c.Old != nil && c.New != nil && OwnerOf(c.Target, c.Old).Draining != OwnerOf(c.Target, c.New).Draining
}

// Latest is what is known of the object last.
func (c Change) Latest() *unstructured.Unstructured {
	if c.New != nil {
		return c.New
	}
	return c.Old
}

// WakeAbove says what a change of an object in the control plane wakes.
//
//	the object                           the change                  wakes
//	has a copy here, or is to, or was    nothing that goes down      nothing
//	                                     any other                   Object, Claims
//	                                     it came                     CopiesOwn, too: they may wait for it
//	                                     traffic is withdrawn, or    CopiesOwn, too: its endpoints
//	                                     comes back
//	                                     a Namespace came, or got    Contents, too: it waits for the name
//	                                     its name below, or another
//	                                     of an autoscaler            Scaled, too
//	mirrors what controllers below made  an own update that came     nothing
//	                                     back
//	                                     any other                   Mirror
//	                                     it came, or is gone         Owned, too: its dependents name it
func WakeAbove(c Change) []Woken {
	var woken []Woken
	if c.Placed && !wasMirrored(c.Target, c.Latest()) && c.goesDown() {
		woken = append(woken, Woken{Wake: WakeObject}, Woken{Wake: WakeClaims})
		if c.came() || c.redirected() {
			woken = append(woken, Woken{Wake: WakeCopiesOwn})
		}
		if c.Kind.Role == workload.Container && (c.came() || c.New != nil && PhysicalName(c.New) != "" && PhysicalName(c.Old) != PhysicalName(c.New)) {
			woken = append(woken, Woken{Wake: WakeContents})
		}
		if len(c.Kind.Scales) > 0 {
			woken = append(woken, Woken{Wake: WakeScaled})
		}
	}
	for _, uid := range c.mirrored() {
		woken = append(woken, Woken{Wake: WakeMirror, UID: uid})
		if c.Old == nil || c.New == nil {
			woken = append(woken, Woken{Wake: WakeOwned, UID: uid})
		}
	}
	return woken
}

// wasMirrored says that an object never had a copy here.
func wasMirrored(target string, obj *unstructured.Unstructured) bool {
	entry := stamp.TargetsOf(obj.GetAnnotations())[target]
	return entry.State == placementv1alpha1.TargetObserved && !entry.Adopted
}

// goesDown says that something changed which goes down. Kinds without a generation are
// looked at each time; conditions of readiness gates are the one status that goes down.
func (c Change) goesDown() bool {
	old, new := c.Old, c.New
	if old == nil || new == nil {
		return true
	}
	onlyStatus := new.GetGeneration() > 0 && old.GetGeneration() == new.GetGeneration() && old.GetUID() == new.GetUID() &&
		(old.GetDeletionTimestamp() == nil) == (new.GetDeletionTimestamp() == nil) &&
		maps.Equal(old.GetLabels(), new.GetLabels()) && maps.Equal(old.GetAnnotations(), new.GetAnnotations()) &&
		slices.Equal(old.GetFinalizers(), new.GetFinalizers())
	return !onlyStatus || CopiedGatesBelow(new, old) != nil
}

// mirrored are the physical UIDs of which the object is, or was, the mirror.
func (c Change) mirrored() []types.UID {
	var uids []types.UID
	for _, obj := range []*unstructured.Unstructured{c.Old, c.New} {
		if obj == nil {
			continue
		}
		if uid := MirroredUID(c.Target, obj); uid != "" && !slices.Contains(uids, uid) {
			uids = append(uids, uid)
		}
	}
	if c.Own && c.Old != nil && c.New != nil { // the other one, if it mirrored another before
		own := MirroredUID(c.Target, c.New)
		uids = slices.DeleteFunc(uids, func(uid types.UID) bool { return uid == own })
	}
	return uids
}

// WakeBelow says what a change of an object of the physical cluster wakes; isCopy says
// that it is the copy of one above, and is not to be mirrored.
//
//	the object                    the change                   wakes
//	carries a mark                an own write that came back  nothing of this row
//	                              any other                    Object of the mark, Orphans
//	carried another mark before   any                          Object of that one, Orphans
//	of a kind that is mirrored,   any                          Mirror
//	and no copy
//	any                           it came                      Owned: its dependents may wait for it
//	                              its mark names another       Owned: they belong to that one now,
//	                              object, or incarnation       also after an own write
//	a Service with a mark         it came, or is gone          Import: endpoints elsewhere go beside it
//	an Ingress                    it is gone, about to go, or  Host, of each: another logical cluster
//	                              lacks names that it had      may wait for it
//	an EndpointSlice              it came, or is gone, leads   Service: its addresses are published, or not,
//	                              to a first pod, or to none   beside those of others
//	a Service                     it came, or is gone, or      Service
//	                              selects pods, or none
//	an Ingress with a mark        leads to other Services      Object, after an own write, too
//	a NetworkPolicy               any                          Isolation: others leave room for it
//	a Namespace                   it came, or is gone          Isolation
//	a Namespace with a mark       it is gone                   Contents, too: what waits to come
//	                                                           back into it
//	a definition of kinds, or a   any                          Carried: what is of that kind, or in that
//	Namespace, from a Manifest                                 namespace, may wait for it
func WakeBelow(c Change, isCopy func(*unstructured.Unstructured) bool) []Woken {
	var woken []Woken
	obj := c.Latest()
	for _, mark := range c.marks() {
		woken = append(woken, Woken{Wake: WakeObject, Mark: mark})
	}
	if len(woken) > 0 {
		woken = append(woken, Woken{Wake: WakeOrphans, UID: obj.GetUID()})
	}
	if c.Observed && !isCopy(obj) {
		woken = append(woken, Woken{Wake: WakeMirror, UID: obj.GetUID()})
	}
	if c.Old == nil || c.remarked() {
		woken = append(woken, Woken{Wake: WakeOwned, UID: obj.GetUID()})
	}
	if c.Kind.GroupKind() == networkPolicies || c.Kind.Role == workload.Container && (c.Old == nil || c.New == nil) {
		woken = append(woken, Woken{Wake: WakeIsolation})
	}
	if c.Kind.Semantics == workload.ServiceSemantics && (c.Old == nil || c.New == nil) {
		if mark, ok := MarkOf(c.Kind.GroupResource(), obj); ok {
			woken = append(woken, Woken{Wake: WakeImport, Mark: mark})
		}
	}
	if c.leadsByOthers() {
		if mark, ok := MarkOf(c.Kind.GroupResource(), c.New); ok && c.Own {
			woken = append(woken, Woken{Wake: WakeObject, Mark: mark})
		}
	}
	if name := c.ledAnew(); name != "" {
		woken = append(woken, Woken{Wake: WakeService, Service: name})
	}
	if c.Kind.Carries && BringsKinds(obj) {
		woken = append(woken, Woken{Wake: WakeCarried})
	}
	for _, host := range c.releasedHosts() {
		woken = append(woken, Woken{Wake: WakeHost, Host: host})
	}
	if c.Kind.Role == workload.Container && c.New == nil {
		for _, mark := range c.marks() {
			woken = append(woken, Woken{Wake: WakeContents, Mark: mark})
		}
	}
	return woken
}

// remarked says that the object carries the mark of another object or incarnation than
// before: it was adopted, or the one above was made again.
func (c Change) remarked() bool {
	if !c.Placed || c.Old == nil || c.New == nil {
		return false
	}
	before, _ := MarkOf(c.Kind.GroupResource(), c.Old)
	now, marked := MarkOf(c.Kind.GroupResource(), c.New)
	return marked && now != before
}

// releasedHosts are the host names that an Ingress does not take any more: as TakenHost has it.
func (c Change) releasedHosts() []string {
	if c.Kind.Semantics != workload.IngressSemantics || c.Old == nil || c.Old.GetDeletionTimestamp() != nil {
		return nil
	}
	had := Hosts(c.Old)
	if c.New == nil || c.New.GetDeletionTimestamp() != nil {
		return had
	}
	has := Hosts(c.New)
	return slices.DeleteFunc(had, func(h string) bool { return slices.Contains(has, h) })
}

// marks are those that the object carries, or carried before, each object once; but for
// that of an own write.
func (c Change) marks() []Mark {
	if !c.Placed {
		return nil
	}
	var marks []Mark
	now, marked := Mark{}, false
	if c.New != nil {
		if now, marked = MarkOf(c.Kind.GroupResource(), c.New); marked && !c.Own {
			marks = append(marks, now)
		}
	}
	if c.Old != nil {
		if before, ok := MarkOf(c.Kind.GroupResource(), c.Old); ok && !(marked && before.sameObject(now)) {
			marks = append(marks, before)
		}
	}
	return marks
}

// CopyChange is what the watch reports of one Copy.
type CopyChange struct {
	Old, New *placementv1alpha1.Copy
	// Own says that New is what the syncer itself wrote.
	Own bool
}

// Copy is what is known of it last.
func (c CopyChange) Copy() *placementv1alpha1.Copy {
	if c.New != nil {
		return c.New
	}
	return c.Old
}

// WakeCopy says what a change of a Copy wakes.
//
//	the change                                wakes
//	any                                       Claims
//	it is gone                                Marked: nobody's copy any more; Object
//	an own write that came back, but for one  nothing more
//	that is new and says more than Pending
//	any other                                 Object
//	it is gone, or says Removed               Namespace: it goes after everything in it
func WakeCopy(c CopyChange) []Woken {
	woken := []Woken{{Wake: WakeClaims}}
	if c.New == nil {
		woken = append(woken, Woken{Wake: WakeMarked})
	}
	if c.New == nil || !c.Own || c.Old == nil && c.New.Status.State != placementv1alpha1.CopyPending {
		woken = append(woken, Woken{Wake: WakeObject})
	}
	if c.New == nil || c.New.Status.State == placementv1alpha1.CopyRemoved {
		woken = append(woken, Woken{Wake: WakeNamespace})
	}
	return woken
}

// MirroredUID is the physical UID of what a logical object mirrors; empty if it mirrors
// nothing of the target.
func MirroredUID(target string, obj *unstructured.Unstructured) types.UID {
	entry, ok := stamp.TargetsOf(obj.GetAnnotations())[target]
	if !ok || entry.State != placementv1alpha1.TargetObserved {
		return ""
	}
	return entry.UID
}

// PhysicalName is the name of the physical namespace of a Namespace; empty as long as
// none is recorded.
func PhysicalName(namespace *unstructured.Unstructured) string {
	return namespace.GetAnnotations()[placementv1alpha1.PhysicalNamespaceAnnotation]
}

// Scales names what an autoscaler scales; the kind is empty if that cannot be read.
func Scales(of workload.Kind, scaler *unstructured.Unstructured) (kind schema.GroupKind, name string) {
	version, _ := descend(scaler.Object, of.Scales)["apiVersion"].(string)
	if _, err := schema.ParseGroupVersion(version); err != nil {
		return schema.GroupKind{}, ""
	}
	kind.Group, kind.Kind, name = workload.Scaled(of, scaler.Object)
	return kind, name
}

// Marked is what is known of a physical object that carries a mark.
type Marked struct {
	Mark   Mark
	Target string
	// Claim says that it is one.
	Claim bool
	// Mirrored says that an object above mirrors it.
	Mirrored bool
	// Recorded says that the object that the mark names has a Copy.
	Recorded bool
	// Logical is what is above under the name of the mark; nil if there is nothing.
	Logical *unstructured.Unstructured
}

// IsCopy says that what carries a mark is the copy of an object above. It was made as
// one, but a controller may have adopted it, or nothing above knows of it any more.
//
//	above it is  the Copy  the object of the mark     then
//	mirrored     any       any                        no
//	             there     any                        yes
//	             none      there, and mirrors nothing yes: its Copy is about to come
//	             none      else, and it is a claim    yes: no controller has it, and it is an Orphan
//	             none      else                       no
func IsCopy(m Marked) bool {
	switch {
	case m.Mirrored:
		return false
	case m.Recorded || m.Claim:
		return true
	}
	return m.Logical != nil && m.Logical.GetUID() == m.Mark.UID && MirroredUID(m.Target, m.Logical) == ""
}
