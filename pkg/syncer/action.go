package syncer

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

// Verb says what an Action does.
type Verb string

// Both ways.
const (
	// Delete removes the object with UID, and no other, from the physical cluster.
	Delete Verb = "Delete"
	// Resize gives the containers of a pod below other resources: Object is a strategic merge
	// patch of the subresource resize.
	Resize Verb = "Resize"
	// PatchStatus changes the status below. When passing on conditions that somebody set above,
	// Object is a strategic merge patch; of a CronJob, a merge patch upon a version, see since.
	PatchStatus Verb = "PatchStatus"
	// Wait: nothing is done before After is over, or something changes.
	Wait Verb = "Wait"
)

// Down: what Plan says.
const (
	// WriteCopy creates or updates the Copy in the control plane.
	WriteCopy Verb = "WriteCopy"
	// Look asks the physical cluster what is there.
	Look Verb = "Look"
	// LookAtRules finds out whether what rules the namespace is on the target.
	LookAtRules Verb = "LookAtRules"
	// LookAtPods asks the physical cluster for the pods of a StatefulSet: Input.Pods.
	LookAtPods Verb = "LookAtPods"
	// CreateNamespace makes the physical namespace, which has a Copy of its own.
	CreateNamespace Verb = "CreateNamespace"
	// Supply makes Supplies in the physical namespace of the object.
	Supply Verb = "Supply"
	// LookAtVolume finds out what Input.Volume is.
	LookAtVolume Verb = "LookAtVolume"
	// MakeVolume makes the PersistentVolume Object, UpdateVolume patches it with a merge patch upon
	// the UID and version in it, and DeleteVolume removes the one with UID, of the name of Object.
	MakeVolume   Verb = "MakeVolume"
	UpdateVolume Verb = "UpdateVolume"
	DeleteVolume Verb = "DeleteVolume"
	// MakeHelper makes Object beside a volume, a pod or what belongs to a snapshot, and DeleteHelper
	// removes the one with UID, of the kind and name of Object.
	MakeHelper   Verb = "MakeHelper"
	DeleteHelper Verb = "DeleteHelper"
	// Suspend has a CronJob below begin no more jobs: Object is a merge patch.
	Suspend Verb = "Suspend"
	// Apply writes Object to the physical cluster.
	Apply Verb = "Apply"
	// Unmark takes our marks off the object with UID, which stays: Object is a merge patch upon a version.
	Unmark Verb = "Unmark"
	// AskServer finds out whether the object with UID still exists in the control
	// plane; the answer is Input.Gone, or OrphanInput.Logical.
	AskServer Verb = "AskServer"
	// Report lists a physical object that nothing mirrors, for people.
	Report Verb = "Report"
)

// Up: what Observe says.
const (
	// CreateUp makes Object, and then writes its status, in the control plane.
	CreateUp Verb = "CreateUp"
	// UpdateUp writes Object, or only its status.
	UpdateUp Verb = "UpdateUp"
	// BindUp gives the Pod its node, which an update cannot do.
	BindUp Verb = "BindUp"
	// DeleteUp removes the mirror within Grace.
	DeleteUp Verb = "DeleteUp"
	// Release writes Object, which is the mirror, being deleted, without our finalizer.
	Release Verb = "Release"
	// Patch passes on what a user changed: Object is a merge patch.
	Patch Verb = "Patch"
	// AddContainers adds ephemeral containers: Object is a strategic merge patch of the
	// subresource ephemeralcontainers.
	AddContainers Verb = "AddContainers"
	// WriteEvent writes Event in the logical cluster, unless it is there.
	WriteEvent Verb = "WriteEvent"
)

// Orphans: what PlanOrphan says.
const (
	// WriteOrphan writes the status of Orphan.
	WriteOrphan Verb = "WriteOrphan"
	// DropOrphan removes the Orphan: it is none any more.
	DropOrphan Verb = "DropOrphan"
)

// Action is one thing to do. Actions are done in order; the first that fails ends
// the pass.
type Action struct {
	Verb Verb
	// Copy is the whole wanted Copy (WriteCopy).
	Copy *placementv1alpha1.Copy
	// Orphan is the whole wanted Orphan (WriteOrphan).
	Orphan *fleetv1alpha1.Orphan
	// Object is what is written. Of an Apply its UID is set if the object must exist
	// already; if it is not, the object must be new: no other manager's field may
	// be taken.
	Object *unstructured.Unstructured
	// Event is what is written (WriteEvent).
	Event *corev1.Event
	// Supplies are what is made (Supply).
	Supplies Supplies
	// IfRetained says that the server is asked first whether its Copy says that the volume was kept, or was to
	// be, see Retains (UpdateVolume).
	IfRetained bool
	// Drift says that the apply reverts what somebody changed (Apply).
	Drift bool
	// Spec and Status say which parts of Object differ (CreateUp, UpdateUp).
	Spec, Status bool
	// UID is what is deleted or asked for.
	UID types.UID
	// Version is the one that is deleted, and no later one; empty: any (Delete).
	Version string
	// Propagation and Grace are how to delete; nil is the grace of the object.
	Propagation metav1.DeletionPropagation
	Grace       *int64
	// After is how long to wait (Wait), and Counting says that the report of a copy waits for
	// what it counts: the caller remembers since when.
	After    time.Duration
	Counting bool
	// Why is a CamelCase word for logs and tests.
	Why string
}

// wait is nothing to do for a while.
func wait(after time.Duration, why string) []Action {
	return []Action{{Verb: Wait, After: after, Why: why}}
}
