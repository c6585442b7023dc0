package simulation

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	copiescontroller "github.com/atoll-dev/atoll/pkg/controllers/copies"
	"github.com/atoll-dev/atoll/pkg/placement"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// Bugs replace parts of the code by wrong ones; nil is the real one.
type Bugs struct {
	plan         func(syncer.Input) []syncer.Action
	observe      func(syncer.Observation) syncer.MirrorAction
	summarize    func(workload.Kind, *unstructured.Unstructured, []*placementv1alpha1.Copy) (map[string]any, bool)
	decide       func(placement.Snapshot, placement.Unit) placement.Decision
	release      func(metav1.Object, []*placementv1alpha1.Copy, func(string) bool) copiescontroller.Verdict
	precondition func(types.UID) types.UID
	force        func(exists bool) bool
	// forgetful: the server takes its cache for newer than what it wrote itself.
	forgetful bool
	// trusting syncers take a missing object for gone, hasty ones do not come
	// back to what failed.
	trusting, hasty bool
	// adopts: a copy is made by an apply that may meet what somebody else has made
	// a moment ago.
	adopts bool
	// redecides: a stored decision is no reason not to decide.
	redecides bool
	// recordsAnything: the server takes Copies of objects that it does not know.
	recordsAnything bool
}

// Plan what to do about an object.
func (b Bugs) Plan(in syncer.Input) []syncer.Action {
	if b.plan != nil {
		return b.plan(in)
	}
	return syncer.Plan(in)
}

// Observe what controllers below made.
func (b Bugs) Observe(s syncer.Observation) syncer.MirrorAction {
	if b.observe != nil {
		return b.observe(s)
	}
	return syncer.Observe(s)
}

// Summarize the status of an object.
func (b Bugs) Summarize(kind workload.Kind, obj *unstructured.Unstructured, list []*placementv1alpha1.Copy) (map[string]any, bool) {
	if b.summarize != nil {
		return b.summarize(kind, obj, list)
	}
	return syncer.Summarize(kind, obj, list)
}

// Decide where a namespace goes.
func (b Bugs) Decide(s placement.Snapshot, u placement.Unit) placement.Decision {
	if b.decide != nil {
		return b.decide(s, u)
	}
	return placement.Decide(s, u)
}

// Release what was acknowledged.
func (b Bugs) Release(obj metav1.Object, list []*placementv1alpha1.Copy, gone func(string) bool) copiescontroller.Verdict {
	if b.release != nil {
		return b.release(obj, list, gone)
	}
	return copiescontroller.Decide(obj, list, gone)
}

// Precondition of a deletion below.
func (b Bugs) Precondition(uid types.UID) types.UID {
	if b.precondition != nil {
		return b.precondition(uid)
	}
	return uid
}

// Force says whether an apply takes fields from others.
func (b Bugs) Force(exists bool) bool {
	if b.force != nil {
		return b.force(exists)
	}
	return exists
}
