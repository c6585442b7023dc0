package syncer

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

// Reasons of a Copy that somebody else below wants to be different.
const (
	// ReasonControlledByOther: its controller is nothing that the logical cluster
	// knows, and it has changed what was applied.
	ReasonControlledByOther = "ControlledByOther"
	// ReasonChangedByOther: somebody changes what was applied again and again.
	ReasonChangedByOther = "ChangedByOther"
)

const (
	// freeReverts drifts in a row are reverted at once.
	freeReverts = 5
	// revertMemory without a drift starts the count again, and twice the last delay,
	// if that is longer.
	revertMemory = 10 * time.Minute
	// maxRevertDelay bounds the time between two reverts.
	maxRevertDelay = time.Hour
	// maxManagers bounds how many field managers a message names.
	maxManagers = 3
)

// Reverts is what is remembered of a copy that was changed below: how many
// changes in a row were reverted, and when the last one was. Losing it costs a few
// reverts.
type Reverts struct {
	Count int
	Last  time.Time
}

// At is what still counts of r.
func (r Reverts) At(now time.Time) Reverts {
	if now.Sub(r.Last) > max(revertMemory, 2*r.pause()) {
		return Reverts{}
	}
	return r
}

// Again is r after one more revert.
func (r Reverts) Again(now time.Time) Reverts {
	return Reverts{Count: r.At(now).Count + 1, Last: now}
}

// After is what is remembered after an apply: who applies something new starts anew.
func (r Reverts) After(a Action, now time.Time) Reverts {
	if !a.Drift {
		return Reverts{}
	}
	return r.Again(now)
}

// Delay is how long the next change is left as it is.
func (r Reverts) Delay(now time.Time) time.Duration {
	r = r.At(now)
	return max(0, r.pause()-now.Sub(r.Last))
}

func (r Reverts) pause() time.Duration {
	if r.Count < freeReverts {
		return 0
	}
	return min(time.Second<<min(r.Count-freeReverts, 12), maxRevertDelay)
}

// contest is what to do about a copy that may have been changed below; done is
// false if that is for others to decide.
//
//	its controller below   drifted   reverts in a row                  do
//	not known above        yes       none, the Copy does not say so    a revert it: caches may lag behind
//	not known above        yes       some, or the Copy says so         b Failed, ControlledByOther
//	none, or known         yes       less than freeReverts             a
//	none, or known         yes       more, and it is not time yet      c Failed, ChangedByOther
//	none, or known         yes       more, and it is time              a; the Copy stays Failed
//	any                    no        more, and the Copy says so        d as c: it has to stay as it is for a while
//	any                    no        otherwise                         e it is as it was applied
//
// What somebody changes above is applied whatever the table says, and starts the
// count again. Nothing goes on for ever: in b not a single write follows before the
// controller lets go, becomes known, or the object changes; in c they become rare.
func (p planner) contest(drifted bool) (actions []Action, done bool) {
	reverts := p.Reverts.At(p.Now)
	if drifted {
		controller := p.unknownController()
		switch {
		case controller != nil && (reverts.Count > 0 || p.failedWith(ReasonControlledByOther)): // b
			return p.fail(Failure{Reason: ReasonControlledByOther, Message: controller.Kind + " " + controller.Name +
				" of the physical cluster controls it and has changed it, and is not the copy of anything here; it is left as it is until that lets go of it"}), true
		case controller == nil && reverts.Delay(p.Now) > 0: // c
			return p.fail(p.changedByOther()), true
		}
		return nil, false // a
	}
	if reverts.Count > freeReverts && p.failedWith(ReasonChangedByOther) { // d
		return p.fail(Failure{Reason: p.Copy.Status.Reason, Message: p.Copy.Status.Message}), true
	}
	return nil, false // e
}

func (p planner) failedWith(reason string) bool {
	return p.Copy != nil && p.Copy.Status.State == placementv1alpha1.CopyFailed && p.Copy.Status.Reason == reason
}

// unknownController is the controller of the copy if nothing above mirrors it.
func (p planner) unknownController() *metav1.OwnerReference {
	if p.Physical == nil || p.controlled() {
		return nil
	}
	return metav1.GetControllerOfNoCopy(p.Physical)
}

func (p planner) changedByOther() Failure {
	who := "somebody"
	desired, _ := Transform(p.Logical, p.placing())
	if managers := otherManagers(p.Physical, desired); len(managers) > 0 {
		who = join(managers)
	}
	return Failure{Reason: ReasonChangedByOther, Message: who +
		" changes it on the physical cluster again and again; it is put back less and less often"}
}

// otherManagers are the field managers, save ours, that own fields of what we
// apply.
func otherManagers(physical, desired *unstructured.Unstructured) []string {
	var names []string
	for _, e := range physical.GetManagedFields() {
		ours := e.Manager == FieldManager && e.Operation == metav1.ManagedFieldsOperationApply
		if ours || e.Subresource == "status" || e.FieldsV1 == nil {
			continue
		}
		var fields map[string]any
		if json.Unmarshal(e.FieldsV1.GetRawBytes(), &fields) == nil && shares(fields, desired.Object) {
			names = append(names, e.Manager)
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	return names[:min(len(names), maxManagers)]
}

// shares says that a set of fields has one that value has, too. Items of lists
// count as equal whatever their key.
func shares(fields map[string]any, value any) bool {
	for name, below := range fields {
		inner, _ := below.(map[string]any)
		switch v := value.(type) {
		case map[string]any:
			field, isField := strings.CutPrefix(name, "f:")
			if has, ok := v[field]; isField && ok && (len(inner) == 0 || shares(inner, has)) {
				return true
			}
		case []any:
			for _, item := range v {
				if name != "." && (len(inner) == 0 || shares(inner, item)) {
					return true
				}
			}
		}
	}
	return false
}
