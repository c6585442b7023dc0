package physicalclusters

import (
	"fmt"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/pkg/workload"
)

const (
	reasonForgotten = "Forgotten"
	// maxSample bounds the list of the report.
	maxSample = 20
)

// forgotten is a copy declared removed.
func forgotten(c *placementv1alpha1.Copy) *placementv1alpha1.Copy {
	c = c.DeepCopy()
	c.Status.State = placementv1alpha1.CopyRemoved
	c.Status.Reason = reasonForgotten
	c.Status.Message = fmt.Sprintf("physical cluster %s was forgotten; nobody saw the copy go", c.Spec.PhysicalCluster)
	return c
}

// neverMade is the Copy, declared removed, of an object that has none on a
// forgotten physical cluster: whatever waits for it must not wait for ever.
func neverMade(kind workload.Kind, obj *metav1.PartialObjectMetadata, target string) *placementv1alpha1.Copy {
	namespace := obj.Namespace
	if kind.Role == workload.Container {
		namespace = obj.Name
	}
	return forgotten(&placementv1alpha1.Copy{
		ObjectMeta: metav1.ObjectMeta{Name: syncer.CopyName(kind.GroupResource(), obj.Name, target), Namespace: namespace},
		Spec: placementv1alpha1.CopySpec{
			PhysicalCluster: target,
			Object: placementv1alpha1.ObjectReference{
				Group: kind.Group, Version: kind.Version, Resource: kind.Resource, Kind: kind.Kind, Name: obj.Name, UID: obj.UID,
			},
		},
	})
}

// waits reports whether the end of an object, or of its entry, waits for a
// target.
func waits(obj *metav1.PartialObjectMetadata, target string) bool {
	entry, ok := stamp.TargetsOf(obj.Annotations)[target]
	if !ok || entry.State == placementv1alpha1.TargetObserved {
		return false
	}
	return obj.DeletionTimestamp != nil || entry.State == placementv1alpha1.TargetStateRemoving
}

// report adds copies that were declared removed to a report.
func report(old *fleetv1alpha1.ForgetReport, copies []*placementv1alpha1.Copy, now time.Time) *fleetv1alpha1.ForgetReport {
	if old != nil && len(copies) == 0 {
		return old
	}
	out := &fleetv1alpha1.ForgetReport{}
	if old != nil {
		out = old.DeepCopy()
	}
	out.At = metav1.NewTime(now)
	for _, c := range copies {
		out.Copies++
		if len(out.Sample) < maxSample {
			out.Sample = append(out.Sample, fmt.Sprintf("%s/%s/%s/%s", logicalcluster.From(c), c.Namespace, c.Spec.Object.Resource, c.Spec.Object.Name))
		}
	}
	return out
}
