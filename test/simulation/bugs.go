package simulation

import (
	"reflect"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	copiescontroller "github.com/atoll-dev/atoll/pkg/controllers/copies"
	"github.com/atoll-dev/atoll/pkg/placement"
	"github.com/atoll-dev/atoll/pkg/placement/transition"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// Bugs are planted in the real shells: in the decisions that they ask for, and in
// what they send, where a line alters it (nil for what is right).
type Bugs struct {
	plan      func(syncer.Input) []syncer.Action
	place     func(in syncer.Input, namespace, made *unstructured.Unstructured) syncer.Place
	summarize func(workload.Kind, *unstructured.Unstructured, []*placementv1alpha1.Copy, time.Time) (map[string]any, bool)
	decide    func(placement.Snapshot, placement.Unit) placement.Decision
	// next is nil for transition.Next.
	next func(*placementv1alpha1.Transition, transition.State) transition.Step
	// giveUp is nil for stamp.Released.
	giveUp  func(current placementv1alpha1.Targets, wish int32, available, reached map[string]int32) placementv1alpha1.Targets
	release func(metav1.Object, []*placementv1alpha1.Copy, func(string) bool) copiescontroller.Verdict
	// alter changes a request of the shells before it arrives.
	alter func(*call)
	// answer changes what the shells get as the answer; f has not executed it yet if
	// the second result is true.
	answers func(*call) (answer, bool)
	// pages is what the shells take a load balancer's answer for; nil for what it is.
	pages func(*call) answer
}

func (b Bugs) paged(c *call) answer {
	if b.pages != nil {
		return b.pages(c)
	}
	return page()
}

// purityInterval is of how many plans one is watched for whether it changes its input:
// that costs more than the plan.
const purityInterval = 8

// Plan what to do about an object, without touching what others hold.
func (b Bugs) Plan(w *World) func(syncer.Input) []syncer.Action {
	plan := b.plan
	if plan == nil {
		plan = syncer.Plan
	}
	return func(in syncer.Input) []syncer.Action {
		if w.plans.Add(1)%purityInterval != 0 {
			return plan(in)
		}
		var held []object
		for _, u := range []*unstructured.Unstructured{in.Logical, in.Physical} {
			if u != nil {
				held = append(held, u)
			}
		}
		if in.Copy != nil {
			held = append(held, in.Copy)
		}
		defer w.unchanged(held)()
		return plan(in)
	}
}

// unchanged checks that nobody changes what informers hold.
func (w *World) unchanged(held []object) func() {
	before := make([]runtime.Object, 0, len(held))
	for _, obj := range held {
		before = append(before, obj.DeepCopyObject())
	}
	return func() {
		for i, obj := range held {
			if !reflect.DeepEqual(before[i], obj.(runtime.Object)) {
				w.fail(CoresArePure, "%s/%s was changed by who only may read it", obj.GetNamespace(), obj.GetName())
			}
		}
	}
}

// Summarize the status of an object.
func (b Bugs) Summarize() func(workload.Kind, *unstructured.Unstructured, []*placementv1alpha1.Copy, time.Time) (map[string]any, bool) {
	if b.summarize != nil {
		return b.summarize
	}
	return syncer.Summarize
}

// Decide where a namespace goes.
func (b Bugs) Decide(w *World) func(placement.Snapshot, placement.Unit) placement.Decision {
	decide := b.decide
	if decide == nil {
		decide = placement.Decide
	}
	return func(s placement.Snapshot, u placement.Unit) placement.Decision {
		d := decide(s, u)
		w.ledger.decides(s, u, d)
		return d
	}
}

// Release what was acknowledged.
func (b Bugs) Release() func(metav1.Object, []*placementv1alpha1.Copy, func(string) bool) copiescontroller.Verdict {
	if b.release != nil {
		return b.release
	}
	return copiescontroller.Decide
}
