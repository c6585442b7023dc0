package syncer

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

// UnwatchedInterval is how often a copy is looked at that is there, but not in the
// cache: no watch will say when that changes.
const UnwatchedInterval = time.Minute

// Outcome says what becomes of an object about which nothing is left to do now.
type Outcome struct {
	// Retry: it is looked at again, without a reason, at growing intervals.
	Retry bool
	// Forget: nothing of it has to be remembered.
	Forget bool
}

// OutcomeOf says what becomes of an object.
//
//	failure, or the Copy is                 above                          then
//	a failure                               any                            Retry
//	Pending, Failed, Removing               any                            Retry
//	none                                    absent, or mirrors from below  Forget
//	else                                    any                            neither
func OutcomeOf(in Input) Outcome {
	if in.Failure != nil {
		return Outcome{Retry: true}
	}
	if in.Copy != nil {
		switch in.Copy.Status.State {
		case placementv1alpha1.CopyPending, placementv1alpha1.CopyFailed, placementv1alpha1.CopyRemoving:
			return Outcome{Retry: true}
		}
		return Outcome{}
	}
	return Outcome{Forget: in.Logical == nil || MirroredUID(in.Target, in.Logical) != ""}
}

// NotServed is the failure that the physical cluster does not serve a resource.
func NotServed(gvr schema.GroupVersionResource) *Failure {
	return &Failure{Reason: reasonNotServed, Message: "the physical cluster does not serve " + gvr.String()}
}

const reasonNotServed = "NotServed"

// NotProvenGone is the failure that the physical cluster does not serve a resource, and that something of it may be there
// all the same.
func NotProvenGone(gvr schema.GroupVersionResource) *Failure {
	return &Failure{Reason: reasonNotServed, Message: "the physical cluster does not serve " + gvr.String() + " now, and may do so again with the copy: only that its " +
		"CustomResourceDefinition is gone, and no other server has its group, proves that there is none; the syncer gets customresourcedefinitions and lists apiservices there to know"}
}
