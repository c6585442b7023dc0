package syncer

import (
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
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
}

// OwnerOf is a logical object as the owner of something below.
func OwnerOf(obj *unstructured.Unstructured) Owner {
	return Owner{Name: obj.GetName(), UID: obj.GetUID(), Deleting: obj.GetDeletionTimestamp() != nil, Gates: TemplateGates(obj)}
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
	// Refers finds the logical UID of an object with a physical UID that this one
	// only mentions.
	Refers func(types.UID) (types.UID, bool)
}

// MirrorVerb is what to do about it.
type MirrorVerb string

const (
	// Rest: nothing to do.
	Rest MirrorVerb = "Rest"
	// Await: the owner is not there yet; it will enqueue what it owns.
	Await MirrorVerb = "Await"
	// CreateUp makes Object, and then writes its status, in the control plane.
	CreateUp MirrorVerb = "CreateUp"
	// UpdateUp writes Object, or only its status.
	UpdateUp MirrorVerb = "UpdateUp"
	// BindUp gives the Pod its node, which an update cannot do.
	BindUp MirrorVerb = "BindUp"
	// DeleteUp removes Logical at once, or within Grace.
	DeleteUp MirrorVerb = "DeleteUp"
	// Release writes Object, which is Logical, being deleted, without our finalizer.
	Release MirrorVerb = "Release"
	// DeleteBelow passes on the deletion by a user.
	DeleteBelow MirrorVerb = "DeleteBelow"
	// PatchBelow passes on what a user changed: Object is a merge patch.
	PatchBelow MirrorVerb = "PatchBelow"
	// PatchStatusBelow passes on conditions that somebody set above: Object is a
	// strategic merge patch of the status.
	PatchStatusBelow MirrorVerb = "PatchStatusBelow"
)

// MirrorAction is the answer of Observe.
type MirrorAction struct {
	Verb   MirrorVerb
	Object *unstructured.Unstructured
	// Spec and Status say which parts of Object differ.
	Spec, Status bool
	// Grace and Propagation are how to delete; a negative Grace is that of the object.
	Grace       int64
	Propagation metav1.DeletionPropagation
}

// Observe says what to do next about an object that controllers below made.
//
//	Physical  Logical   otherwise                              do
//	gone      none                                             Rest
//	gone      deleting  has our finalizer                      Release
//	gone      any                                              DeleteUp
//	deleting  none                                             Rest
//	live      none      its controller has no living mirror    Await
//	live      none                                             CreateUp
//	live      deleting  a Pod, or it has our finalizer; the    DeleteBelow
//	                    owners agree, or it is the copy of
//	                    Logical and nobody controls it
//	live      deleting  has our finalizer                      Release: it is mirrored anew
//	live      deleting  else                                   DeleteUp: it is mirrored anew
//	deleting  deleting                                         Rest
//	deleting  live      a Pod                                  DeleteUp with the grace it has
//	live      live      a user wants other labels              PatchBelow
//	live      live      a readiness gate was set above         PatchStatusBelow
//	any       live      differs                                BindUp, UpdateUp
func Observe(s Observation) MirrorAction {
	switch {
	case s.Physical == nil && s.Logical == nil:
		return MirrorAction{Verb: Rest}
	case s.Physical == nil:
		return s.takeOff()
	}
	deletingBelow := s.Physical.GetDeletionTimestamp() != nil
	if s.Logical == nil && deletingBelow {
		return MirrorAction{Verb: Rest}
	}
	owners, controlled, settled := s.owners()
	desired := s.desired(owners)
	if s.Logical == nil {
		if !settled {
			return MirrorAction{Verb: Await}
		}
		setNested(desired.Object, string(s.Physical.GetUID()), "metadata", "annotations", placementv1alpha1.UIDAnnotation)
		return MirrorAction{Verb: CreateUp, Object: desired, Spec: true, Status: true}
	}
	if s.Logical.GetDeletionTimestamp() != nil {
		return s.deletedAbove(deletingBelow, controlled && !settled, owners)
	}
	if grace := s.Physical.GetDeletionGracePeriodSeconds(); s.isPod() && deletingBelow && grace != nil && *grace > 0 {
		return MirrorAction{Verb: DeleteUp, Grace: *grace}
	}
	if patch := s.wanted(); patch != nil && !deletingBelow {
		return MirrorAction{Verb: PatchBelow, Object: patch}
	}
	if patch := GatesBelow(s.Logical, s.Physical, s.gates()); patch != nil && !deletingBelow {
		return MirrorAction{Verb: PatchStatusBelow, Object: patch}
	}
	return s.difference(desired)
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
func (s Observation) takeOff() MirrorAction {
	if s.Logical.GetDeletionTimestamp() == nil || !s.held() {
		return MirrorAction{Verb: DeleteUp}
	}
	released := s.Logical.DeepCopy()
	released.SetFinalizers(slices.DeleteFunc(released.GetFinalizers(), func(f string) bool { return f == placementv1alpha1.CopiesFinalizer }))
	return MirrorAction{Verb: Release, Object: released}
}

// deletedAbove passes a deletion on, unless it is the garbage collector's for want
// of an owner that we named wrongly or that was replaced: nothing that runs may die
// of our bookkeeping.
//
// What a user made and a controller adopted and let go again is nobody else's: its
// deletion means what is below.
func (s Observation) deletedAbove(deletingBelow, unsettled bool, owners []metav1.OwnerReference) MirrorAction {
	released := s.isCopy() && metav1.GetControllerOfNoCopy(s.Physical) == nil
	switch {
	case deletingBelow:
		return MirrorAction{Verb: Rest}
	case !s.isPod() && !s.held(), !released && (unsettled || !sameOwners(owners, s.Logical.GetOwnerReferences())):
		return s.takeOff()
	}
	r := MirrorAction{Verb: DeleteBelow, Grace: -1}
	if !s.isPod() {
		r.Propagation = propagation(s.Logical)
	} else if grace := s.Logical.GetDeletionGracePeriodSeconds(); grace != nil {
		r.Grace = *grace
	}
	return r
}

// isCopy says that what is below was made as the copy of Logical.
func (s Observation) isCopy() bool {
	m, ok := MarkOf(s.Kind.GroupResource(), s.Physical)
	return ok && m.UID == s.Logical.GetUID()
}

// owners are the owner references with logical UIDs and names. What nothing
// mirrors is left out; controlled says that there is a controller below,
// settled that it is here and stays, or is not needed.
func (s Observation) owners() (refs []metav1.OwnerReference, controlled, settled bool) {
	settled = s.Kind.Unowned
	for _, ref := range s.Physical.GetOwnerReferences() {
		owner, ok := s.Owner(ref.UID)
		if ref.Controller != nil && *ref.Controller {
			controlled, settled = true, ok && !owner.Deleting
		}
		if !ok {
			continue
		}
		ref.Name, ref.UID = owner.Name, owner.UID
		refs = append(refs, ref)
	}
	return refs, controlled, settled
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

func endpointsUp(s Observation, obj *unstructured.Unstructured, _ map[string]string) {
	for _, e := range list(obj.Object, "endpoints") {
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

func userKeys(m map[string]string) map[string]string {
	out := maps.Clone(m)
	maps.DeleteFunc(out, func(k, _ string) bool { return placementv1alpha1.IsSystemKey(k) })
	return out
}
