package pods

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	placement "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/reach"
	"github.com/atoll-dev/atoll/pkg/stamp"
)

// Place is where a pod runs.
type Place struct {
	// Target is the physical cluster, Namespace the physical namespace.
	Target, Namespace string
	// UID is the one that the pod has there.
	UID types.UID
}

// Locate finds where pod runs, with namespace, in which it is, and the Copy on each target
// that keeps one (nil if there is none).
//
//	targets of pod  its Copy                     it runs
//	an observed one any                          there, in the namespace that its Namespace names
//	some that keep  made of this pod, on some    on the first of these that receives traffic, else
//	                                             on the first, where the Copy says
//	some that keep  not made yet                 nowhere yet
//	none that keeps any                          nowhere
func Locate(pod, namespace metav1.Object, copies map[string]*placement.Copy) (Place, error) {
	targets := stamp.TargetsOf(pod.GetAnnotations())
	for _, name := range targets.Names() {
		if t := targets[name]; t.State == placement.TargetObserved {
			p := Place{Target: name, Namespace: namespace.GetAnnotations()[placement.PhysicalNamespaceAnnotation], UID: t.UID}
			if p.Namespace == "" || p.UID == "" {
				return p, reach.Absent("where it runs is not recorded yet")
			}
			return p, nil
		}
	}
	var found []Place
	why := "it has no place yet, its Placement says why"
	for _, name := range targets.Names() {
		if !targets[name].Keeps() {
			continue
		}
		c := copies[name]
		switch {
		case c == nil:
			why = "it has not been made on a physical cluster yet"
		case c.Spec.Object.UID != pod.GetUID(), c.Status.PhysicalUID == "", c.Status.PhysicalNamespace == "":
			why = "it has not been made on a physical cluster yet" + reasonOf(c)
		default:
			p := Place{Target: name, Namespace: c.Status.PhysicalNamespace, UID: c.Status.PhysicalUID}
			if targets[name].Receives() {
				return p, nil
			}
			found = append(found, p)
		}
	}
	if len(found) == 0 {
		return Place{}, reach.Absent(why)
	}
	return found[0], nil
}

// Kept are the targets whose Copies Locate needs, sorted.
func Kept(pod metav1.Object) []string {
	targets := stamp.TargetsOf(pod.GetAnnotations())
	return slices.DeleteFunc(targets.Names(), func(name string) bool { return !targets[name].Keeps() })
}

func reasonOf(c *placement.Copy) string {
	if c.Status.Reason == "" {
		return ""
	}
	return fmt.Sprintf(": its Copy %s is %s, %s", c.Name, c.Status.State, c.Status.Reason)
}
