package simulation

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/syncer"
)

// absenceDeletes is what syncers before this one did.
func absenceDeletes(in syncer.Input) []syncer.Action {
	if in.Logical == nil && in.Physical != nil && in.Copy != nil && in.Physical.GetDeletionTimestamp() == nil {
		return []syncer.Action{{Verb: syncer.Delete, UID: in.Physical.GetUID(), Why: "Absent"}}
	}
	return syncer.Plan(in)
}

// takeOver is what the plan would apply if nothing were there, aimed at what is.
func takeOver(in syncer.Input, otherwise []syncer.Action) []syncer.Action {
	physical := in.Physical
	in.Physical = nil
	for _, a := range syncer.Plan(in) {
		if a.Verb == syncer.Apply {
			a.Object.SetUID(physical.GetUID())
			return []syncer.Action{a}
		}
	}
	return otherwise
}

func adopts(in syncer.Input) []syncer.Action {
	actions := syncer.Plan(in)
	if in.Physical == nil || in.Logical == nil || in.Applied || len(actions) == 0 ||
		actions[0].Verb != syncer.WriteCopy || actions[0].Copy.Status.Reason != syncer.NotOurs.Reason {
		return actions
	}
	return takeOver(in, actions)
}

func rebrands(in syncer.Input) []syncer.Action {
	actions := syncer.Plan(in)
	if len(actions) != 1 || actions[0].Verb != syncer.Delete || actions[0].Why != "OtherIncarnation" || in.Logical == nil {
		return actions
	}
	return takeOver(in, actions)
}

func appliesFirst(in syncer.Input) []syncer.Action {
	actions := syncer.Plan(in)
	if len(actions) != 1 || actions[0].Verb != syncer.WriteCopy || actions[0].Copy.Status.State != placementv1alpha1.CopyPending {
		return actions
	}
	if in.Copy == nil && in.Physical == nil {
		in.Copy, in.Unseen = actions[0].Copy, false
		return syncer.Plan(in)
	}
	return actions
}

func acknowledgesEarly(in syncer.Input) []syncer.Action {
	actions := syncer.Plan(in)
	for i, a := range actions {
		if a.Verb == syncer.WriteCopy && a.Copy.Status.State == placementv1alpha1.CopyRemoving {
			c := a.Copy.DeepCopy()
			c.Status.State = placementv1alpha1.CopyRemoved
			actions[i].Copy = c
		}
	}
	return actions
}

// followsNamespace takes for the place of a copy what its Namespace names now.
func followsNamespace(in syncer.Input, namespace, made *unstructured.Unstructured) syncer.Place {
	place := syncer.PlaceOf(in, namespace, made)
	if place.Disputed {
		place = syncer.Place{Name: syncer.PhysicalName(namespace), UID: place.UID}
	}
	return place
}

func trespasses(in syncer.Input) []syncer.Action {
	actions := syncer.Plan(in)
	for i, a := range actions {
		if a.Verb == syncer.WriteCopy && in.Copy == nil {
			actions[i].Copy = a.Copy.DeepCopy()
			actions[i].Copy.Spec.PhysicalCluster = "elsewhere"
		}
	}
	return actions
}

func leavesDrift(in syncer.Input) []syncer.Action {
	actions := syncer.Plan(in)
	if len(actions) == 1 && actions[0].Drift {
		return nil
	}
	return actions
}

func appliesOnce(in syncer.Input) []syncer.Action {
	actions := syncer.Plan(in)
	if len(actions) == 1 && actions[0].Why == "Changed" {
		return nil
	}
	return actions
}

func changesInput(in syncer.Input) []syncer.Action {
	if in.Logical != nil {
		in.Logical.SetLabels(map[string]string{"changed": "yes"})
	}
	return syncer.Plan(in)
}

func reuses(in syncer.Input) []syncer.Action {
	if in.Copy != nil && in.Logical != nil && in.Copy.Status.State == placementv1alpha1.CopyRemoved && in.Copy.Spec.Object.UID != in.Logical.GetUID() {
		c := in.Copy.DeepCopy()
		c.Spec.Object.UID = in.Logical.GetUID()
		c.Status = placementv1alpha1.CopyStatus{State: placementv1alpha1.CopyPending, PhysicalNamespace: c.Status.PhysicalNamespace}
		return []syncer.Action{{Verb: syncer.WriteCopy, Copy: c}}
	}
	return syncer.Plan(in)
}

// removesOrphans deletes what it should report.
func removesOrphans(in syncer.Input) []syncer.Action {
	actions := syncer.Plan(in)
	if len(actions) == 1 && actions[0].Verb == syncer.Report {
		return []syncer.Action{{Verb: syncer.Delete, UID: actions[0].UID, Why: "Orphan"}}
	}
	return actions
}

// restless counts in each Copy how often something was looked at.
func restless() func(syncer.Input) []syncer.Action {
	var mu sync.Mutex
	n := int64(0)
	return func(in syncer.Input) []syncer.Action {
		actions := syncer.Plan(in)
		if len(actions) > 0 || in.Copy == nil || in.Copy.Status.State != placementv1alpha1.CopySynced {
			return actions
		}
		mu.Lock()
		defer mu.Unlock()
		n++
		c := in.Copy.DeepCopy()
		c.Status.Drifts = n
		return []syncer.Action{{Verb: syncer.WriteCopy, Copy: c}}
	}
}

func ignoresControllers(in syncer.Input) []syncer.Action {
	in.Owner = nil
	return syncer.Plan(in)
}

// givesUp does nothing about an object of which it has once seen a failure.
func givesUp() func(syncer.Input) []syncer.Action {
	return func(in syncer.Input) []syncer.Action {
		if in.Copy != nil && in.Copy.Status.State == placementv1alpha1.CopyFailed && in.Failure == nil && in.Logical != nil &&
			in.Logical.GetUID() == in.Copy.Spec.Object.UID && in.Logical.GetDeletionTimestamp() == nil {
			return nil
		}
		return syncer.Plan(in)
	}
}

// ignoresRules applies what makes pods before what rules them.
func ignoresRules(in syncer.Input) []syncer.Action {
	in.Ruled = true
	return syncer.Plan(in)
}

// forgetsRuntime sends pods down without their runtime, keepsClass with the name of the
// class in the logical cluster.
func forgetsRuntime(in syncer.Input) []syncer.Action { return withClass(in, "") }

func keepsClass(in syncer.Input) []syncer.Action { return withClass(in, sandboxed) }

func withClass(in syncer.Input, class string) []syncer.Action {
	actions := syncer.Plan(in)
	for _, a := range actions {
		if a.Verb == syncer.Apply && in.Ref.Kind.PodTemplate != nil && syncer.RuntimeHandler(in.Logical) != "" {
			path := append(slices.Clone(in.Ref.Kind.PodTemplate), "spec", "runtimeClassName")
			unstructured.RemoveNestedField(a.Object.Object, path...)
			if class != "" {
				_ = unstructured.SetNestedField(a.Object.Object, class, path...) // a path of maps
			}
		}
	}
	return actions
}

// insists takes no refusal for an answer.
func insists(in syncer.Input) []syncer.Action {
	in.Failure = nil
	return syncer.Plan(in)
}
