// Package copyindex finds Copies by what they record: by the object and by the
// target, with one index of one informer for all controllers.
//
// It does no I/O of its own; the informer that it reads is shared. Read next: Object,
// On.
package copyindex

import (
	"slices"
	"strings"

	"github.com/kcp-dev/logicalcluster/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
)

// Informer holds all Copies, with Indexers.
type Informer = controller.Informer[*placementv1alpha1.Copy]

const (
	byObject = "copies.object"
	byTarget = "copies.target"
	byVolume = "copies.volume"
)

var namespaces = corev1.Resource("namespaces")

// Indexers are the indexers that the informer of Copies must have.
func Indexers() map[string]func(*placementv1alpha1.Copy) []string {
	return map[string]func(*placementv1alpha1.Copy) []string{
		byObject: func(c *placementv1alpha1.Copy) []string { return []string{ObjectOf(c).String()} },
		byTarget: func(c *placementv1alpha1.Copy) []string { return []string{c.Spec.PhysicalCluster} },
		byVolume: func(c *placementv1alpha1.Copy) []string {
			var keys []string
			for _, is := range c.Status.Volume.Named() {
				keys = append(keys, volumeKey(is))
			}
			return keys
		},
	}
}

// Object names a logical object that may have Copies.
type Object struct {
	Resource schema.GroupResource
	Object   controller.Request
}

// ObjectOf is the object that a Copy records. The Copy of a Namespace is in it.
func ObjectOf(c *placementv1alpha1.Copy) Object {
	o := Object{
		Resource: schema.GroupResource{Group: c.Spec.Object.Group, Resource: c.Spec.Object.Resource},
		Object:   controller.Request{Cluster: logicalcluster.From(c), Namespace: c.Namespace, Name: c.Spec.Object.Name},
	}
	if o.Resource == namespaces {
		o.Object.Namespace = ""
	}
	return o
}

// String is for logs and the index.
func (o Object) String() string { return o.Resource.String() + " " + o.Object.String() }

// LogicalCluster makes the queue loop reconcile in the scope of the object.
func (o Object) LogicalCluster() logicalcluster.Name { return o.Object.Cluster }

// Of returns the Copies of an object, of all objects that ever had its name, in the
// order of their names: what is done about them is, too.
func Of(copies *Informer, o Object) []*placementv1alpha1.Copy {
	list := copies.ByIndex(byObject, o.String())
	slices.SortFunc(list, func(a, b *placementv1alpha1.Copy) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// On returns the Copies on a target, in no order.
func On(copies *Informer, target string) []*placementv1alpha1.Copy {
	return copies.ByIndex(byTarget, target)
}

// CountOn is the number of the Copies on a target.
func CountOn(copies *Informer, target string) int { return copies.CountByIndex(byTarget, target) }

func volumeKey(is placementv1alpha1.VolumeHandle) string { return is.Driver + " " + is.Handle }

// Holding returns the Copies that record a volume or a snapshot: its driver and handle, in no order.
func Holding(copies *Informer, is placementv1alpha1.VolumeHandle) []*placementv1alpha1.Copy {
	return copies.ByIndex(byVolume, volumeKey(is))
}
