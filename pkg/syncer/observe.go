package syncer

import (
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/boundary"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// Owner is the logical object that mirrors an owner below.
type Owner struct {
	Name string
	UID  types.UID
	// Deleting says that it is on its way out: nothing new is mirrored for it.
	Deleting bool
	// Gates are the readiness gates that its pod template names.
	Gates []string
	// Draining says that its copy on the target receives no traffic any more.
	Draining bool
}

// OwnerOf is a logical object as the owner of something on a target.
func OwnerOf(target string, obj *unstructured.Unstructured) Owner {
	state := stamp.TargetsOf(obj.GetAnnotations())[target].State
	return Owner{
		Name: obj.GetName(), UID: obj.GetUID(), Deleting: obj.GetDeletionTimestamp() != nil, Gates: TemplateGates(obj),
		// What is being removed may be there for long: a syncer that does not reach it mirrors
		// what it saw last.
		Draining: state == placementv1alpha1.TargetStateDraining || state == placementv1alpha1.TargetStateRemoving,
	}
}

// Observation is one object that controllers of the target made.
type Observation struct {
	Kind workload.Kind
	// Physical is the object below; nil if it is known to be gone.
	Physical *unstructured.Unstructured
	// Logical is the object that mirrors it; nil if there is none.
	Logical *unstructured.Unstructured
	// Namespace is the logical namespace.
	Namespace string
	// Owner finds what mirrors the owner with a physical UID.
	Owner func(types.UID) (Owner, bool)
	// Made is what it owns below.
	Made []Made
	// Target is the physical cluster, and Permits what it permits beyond the default.
	Target  string
	Permits boundary.Permits
	// Now is the time at which it is asked.
	Now time.Time
	// Refers finds the logical UID of an object with a physical UID that this one
	// only mentions.
	Refers func(types.UID) (types.UID, bool)
}

// Observe says what to do next about an object that controllers below made. No action
// means that nothing is to be done until something changes.
//
//	Physical  Logical   otherwise                              do
//	gone      none                                             nothing
//	gone      deleting  has our finalizer                      Release
//	gone      any                                              DeleteUp
//	deleting  none                                             nothing
//	live      none      a new pod that may get its node        Wait, see BindingDelay
//	live      none      its controller has no living mirror    nothing: who mirrors that wakes it
//	live      none      nobody controls it, and it was made    nothing: it is an Orphan, or no logical cluster
//	                    as a copy, or nobody writes its kind   could have written it
//	live      none                                             CreateUp
//	live      deleting  a Pod, or it has our finalizer; the    Delete
//	                    owners agree, or it is the copy of
//	                    Logical and nobody controls it
//	live      deleting  has our finalizer                      Release: it is mirrored anew
//	live      deleting  else                                   DeleteUp: it is mirrored anew
//	deleting  deleting                                         nothing
//	deleting  live      a Pod                                  DeleteUp with the grace it has
//	live      live      a user wants other labels              Patch
//	live      live      a readiness gate was set above         PatchStatus
//	live      live      an ephemeral container was added above AddContainers, or WriteEvent if it may not go
//	                                                           down; and what follows
//	live      live      a container was resized above          Resize, and what follows
//	any       live      differs                                BindUp, UpdateUp
//
// A status that counts pods waits until these are mirrored, see countingDelay.
func Observe(s Observation) []Action {
	if s.Physical == nil {
		if s.Logical == nil {
			return nil
		}
		return s.takeOff()
	}
	deletingBelow := s.Physical.GetDeletionTimestamp() != nil
	switch {
	case s.Logical == nil && deletingBelow:
		return nil
	case s.Logical == nil:
		if after := BindingDelay(s.Kind, s.Physical, s.Now); after > 0 {
			return wait(after, "Binding")
		}
	}
	owners, controlled, settled := s.owners()
	desired := s.desired(owners)
	if s.Logical == nil {
		if !settled {
			return nil
		}
		setNested(desired.Object, string(s.Physical.GetUID()), "metadata", "annotations", placementv1alpha1.UIDAnnotation)
		return s.andCount(Action{Verb: CreateUp, Object: desired, Spec: true, Status: true})
	}
	if s.Logical.GetDeletionTimestamp() != nil {
		return s.deletedAbove(deletingBelow, controlled && !settled, owners)
	}
	if grace := s.Physical.GetDeletionGracePeriodSeconds(); s.isPod() && deletingBelow && grace != nil && *grace > 0 {
		return []Action{{Verb: DeleteUp, Grace: grace}}
	}
	if patch := s.wanted(); patch != nil && !deletingBelow {
		return []Action{{Verb: Patch, Object: patch}}
	}
	if patch := GatesBelow(s.Logical, s.Physical, s.gates()); patch != nil && !deletingBelow {
		return []Action{{Verb: PatchStatus, Object: patch}}
	}
	return s.andCount(slices.Concat(s.ephemeralContainers(), s.resize(), s.difference(desired))...)
}

// andCount has a status that was held back looked at again.
func (s Observation) andCount(actions ...Action) []Action {
	if after := s.countingDelay(); after > 0 {
		return append(actions, wait(after, "Counting")...)
	}
	return actions
}

// gates of a Pod are those of what a user wrote: the pod itself, or its template.
func (s Observation) gates() []string {
	switch {
	case !s.isPod():
		return nil
	case s.Logical != nil && s.isCopy():
		return gatesOf(field(s.Logical.Object, "spec"))
	}
	return gatesBy(s.Physical, s.Owner)
}

func (s Observation) isPod() bool { return s.Kind.IsPod() }

// held says that our finalizer keeps the mirror until its deletion has been
// carried out below.
func (s Observation) held() bool {
	return slices.Contains(s.Logical.GetFinalizers(), placementv1alpha1.CopiesFinalizer)
}

// takeOff removes the mirror.
func (s Observation) takeOff() []Action {
	if s.Logical.GetDeletionTimestamp() == nil || !s.held() {
		return []Action{{Verb: DeleteUp, Grace: ptr.To[int64](0)}}
	}
	released := s.Logical.DeepCopy()
	released.SetFinalizers(slices.DeleteFunc(released.GetFinalizers(), func(f string) bool { return f == placementv1alpha1.CopiesFinalizer }))
	return []Action{{Verb: Release, Object: released}}
}

// deletedAbove passes a deletion on, unless it is the garbage collector's for want
// of an owner that we named wrongly or that was replaced: nothing that runs may die
// of our bookkeeping.
//
// What a user made and a controller adopted and let go again is nobody else's: its
// deletion means what is below.
func (s Observation) deletedAbove(deletingBelow, unsettled bool, owners []metav1.OwnerReference) []Action {
	released := s.isCopy() && metav1.GetControllerOfNoCopy(s.Physical) == nil
	switch {
	case deletingBelow:
		return nil
	case !s.isPod() && !s.held(), !released && (unsettled || !sameOwners(owners, s.Logical.GetOwnerReferences())):
		return s.takeOff()
	}
	a := Action{Verb: Delete, UID: s.Physical.GetUID(), Why: "Mirror"}
	if s.isPod() {
		a.Grace = s.Logical.GetDeletionGracePeriodSeconds()
	} else {
		a.Propagation = propagation(s.Logical)
	}
	return []Action{a}
}

// isCopy says that what is below was made as the copy of Logical.
func (s Observation) isCopy() bool {
	m, ok := MarkOf(s.Kind.GroupResource(), s.Physical)
	return ok && m.UID == s.Logical.GetUID()
}

// owners are the owner references with logical UIDs and names. What nothing
// mirrors is left out, and what is on its way out and was taken off above: its deletion
// leaves its dependents, and what would refer to it again would be collected once it is gone.
// controlled says that there is a controller below, settled that it is here and stays, or is not needed:
// what users may write is mirrored also if nobody controls it (any more), unless it was made as a copy.
func (s Observation) owners() (refs []metav1.OwnerReference, controlled, settled bool) {
	_, marked := MarkOf(s.Kind.GroupResource(), s.Physical)
	settled = s.Kind.Copied() && !marked
	for _, ref := range s.Physical.GetOwnerReferences() {
		owner, ok := s.Owner(ref.UID)
		if ref.Controller != nil && *ref.Controller {
			controlled, settled = true, ok && !owner.Deleting
		}
		if !ok || owner.Deleting && s.Logical != nil && !refersTo(s.Logical, owner.UID) {
			continue
		}
		ref.Name, ref.UID = owner.Name, owner.UID
		refs = append(refs, ref)
	}
	return refs, controlled, settled
}

func refersTo(obj *unstructured.Unstructured, owner types.UID) bool {
	return slices.ContainsFunc(obj.GetOwnerReferences(), func(ref metav1.OwnerReference) bool { return ref.UID == owner })
}

func sameOwners(a, b []metav1.OwnerReference) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].UID != b[i].UID {
			return false
		}
	}
	return true
}

// desired is the object as it shall be in the logical cluster.
func (s Observation) desired(owners []metav1.OwnerReference) *unstructured.Unstructured {
	content := deepCopy(s.Physical.Object).(map[string]any)
	obj := &unstructured.Unstructured{Object: content}
	labels, annotations := userKeys(obj.GetLabels()), userKeys(obj.GetAnnotations())
	metadata := map[string]any{"name": obj.GetName(), "namespace": s.Namespace}
	if generate := obj.GetGenerateName(); generate != "" {
		metadata["generateName"] = generate
	}
	content["apiVersion"], content["kind"], content["metadata"] = s.Kind.GroupVersion().String(), s.Kind.Kind, metadata
	s.translate(obj, labels)
	if len(labels) > 0 {
		obj.SetLabels(labels)
	}
	if len(annotations) > 0 {
		obj.SetAnnotations(annotations)
	}
	obj.SetOwnerReferences(owners)
	return obj
}

// translate gives back what the way down took, and turns UIDs and namespaces of
// the physical cluster into logical ones.
func (s Observation) translate(obj *unstructured.Unstructured, labels map[string]string) {
	if up := semanticsOf(s.Kind).up; up != nil {
		up(s, obj, labels)
	}
	if s.isPod() {
		return // podUp has done it
	}
	if name := s.Physical.GetAnnotations()[storageClassAnnotation]; name != "" && s.Kind.IsClaim() {
		setNested(obj.Object, name, "spec", "storageClassName")
	}
	for _, t := range workload.PodTemplates(s.Kind, obj.Object) {
		templateUp(t)
	}
}

func podUp(s Observation, obj *unstructured.Unstructured, labels map[string]string) {
	annotations := s.Physical.GetAnnotations()
	restoreServiceAccount(obj, annotations[serviceAccountAnnotation], annotations[automountAnnotation])
	if class := annotations[runtimeClassAnnotation]; class != "" {
		setNested(obj.Object, class, "spec", "runtimeClassName")
	}
	spec := field(obj.Object, "spec")
	delete(spec, ephemeral) // is added to a pod that is there, by who is above
	environmentUp(spec, anyMap(annotations))
	downwardUp(spec)
	s.translateJobLabels(labels)
}

func jobUp(_ Observation, obj *unstructured.Unstructured, labels map[string]string) {
	stripJob(obj.Object)
	for _, name := range generatedJobLabels(obj.Object) {
		delete(labels, name)
	}
}

// translateJobLabels makes the pods of a Job match the selector that the Job has
// in the logical cluster, which is its UID there.
func (s Observation) translateJobLabels(labels map[string]string) {
	for _, name := range []string{"controller-uid", "batch.kubernetes.io/controller-uid"} {
		uid, ok := labels[name]
		if !ok {
			continue
		}
		if owner, found := s.Owner(types.UID(uid)); found {
			labels[name] = string(owner.UID)
		}
	}
}

// endpointsUp: endpoints of a Service that receives no traffic any more are as those of
// pods that end: they still serve, but nobody new is to come. So are those of a Service that
// is not there: nobody follows its pods until its slices are collected, and a new Service of
// that name has slices of its own.
func endpointsUp(s Observation, obj *unstructured.Unstructured, _ map[string]string) {
	draining := slices.ContainsFunc(s.Physical.GetOwnerReferences(), func(ref metav1.OwnerReference) bool {
		owner, ok := s.Owner(ref.UID)
		return owner.Draining || !ok && ref.Controller != nil && *ref.Controller
	})
	for _, e := range list(obj.Object, "endpoints") {
		if draining {
			withdraw(e)
		}
		ref := field(e, "targetRef")
		if ref == nil {
			continue
		}
		ref["namespace"] = s.Namespace
		physical, _ := ref["uid"].(string)
		delete(ref, "uid")
		if uid, ok := s.Refers(types.UID(physical)); ok {
			ref["uid"] = string(uid)
		}
	}
}

func withdraw(endpoint map[string]any) {
	conditions := field(endpoint, "conditions")
	if conditions == nil {
		conditions = map[string]any{}
		endpoint["conditions"] = conditions
	}
	ready, said := conditions["ready"].(bool)
	if _, has := conditions["serving"]; !has {
		conditions["serving"] = ready || !said
	}
	conditions["ready"], conditions["terminating"] = false, true
}

func restoreServiceAccount(pod *unstructured.Unstructured, name, automount string) {
	spec := field(pod.Object, "spec")
	if spec == nil {
		return
	}
	if name == "" {
		name = "default"
	}
	spec["serviceAccountName"], spec["serviceAccount"] = name, name
	delete(spec, "automountServiceAccountToken")
	if automount != "" {
		spec["automountServiceAccountToken"] = automount == "true"
	}
	dropTokenVolumes(spec)
}

func anyMap(m map[string]string) map[string]any {
	out := make(map[string]any, len(m))
	for k, v := range m {
		out[k] = v
	}
	return out
}

func userKeys(m map[string]string) map[string]string {
	out := maps.Clone(m)
	maps.DeleteFunc(out, func(k, _ string) bool {
		return placementv1alpha1.IsSystemKey(k) || placementv1alpha1.IsOrder(k) // no wish of a user
	})
	return out
}
