package status

import (
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// revisionAnnotation is how the deployment controller numbers ReplicaSets, and
// says on the Deployment which is the newest. It does so below; the ReplicaSets
// are mirrored with theirs.
const revisionAnnotation = "deployment.kubernetes.io/revision"

// followRevisions has a Deployment looked at when a ReplicaSet of it gets another
// number, or when its own was taken off. Which kinds these are says workload.Kind,
// with Numbers.
func (s *Controller) followRevisions() {
	kinds := s.Kinds.Current()
	for _, numbering := range kinds.Kinds() {
		if numbered, ok := kinds.ByKind(numbering.Numbers); ok {
			s.followRevisionsOf(numbered, numbering)
		}
	}
}

func (s *Controller) followRevisionsOf(numbered, numbering workload.Kind) {
	resource := numbered.GroupResource()
	if informer := s.Metadata.For(numbering.GroupVersionResource()); informer != nil {
		informer.Handle(func(old, new *metav1.PartialObjectMetadata) {
			if new == nil || new.Annotations[revisionAnnotation] == "" || old != nil && old.Annotations[revisionAnnotation] == new.Annotations[revisionAnnotation] {
				return
			}
			if owner := metav1.GetControllerOfNoCopy(new); owner != nil && owner.Kind == numbered.Kind {
				r := controller.RequestFor(new)
				r.Name = owner.Name
				s.queue.Enqueue(key{Resource: resource, Object: r})
			}
		})
	}
	if informer := s.Metadata.For(numbered.GroupVersionResource()); informer != nil {
		informer.Handle(func(old, new *metav1.PartialObjectMetadata) {
			if old != nil && new != nil && old.Annotations[revisionAnnotation] != new.Annotations[revisionAnnotation] {
				s.queue.Enqueue(key{Resource: resource, Object: controller.RequestFor(new)})
			}
		})
	}
}

// newest is the highest number of the ReplicaSets of a Deployment, empty if it has
// none or is something else.
func (s *Controller) newest(k key, uid types.UID) string {
	if s.Metadata == nil {
		return ""
	}
	numbering, ok := s.Kinds.Current().NumberingOf(k.Resource)
	if !ok {
		return ""
	}
	informer := s.Metadata.For(numbering.GroupVersionResource())
	if informer == nil {
		return ""
	}
	var numbers []int
	for _, set := range informer.ByIndex(controller.OwnerIndex, controller.UIDKey(k.Object.Cluster, uid)) {
		if n, err := strconv.Atoi(set.Annotations[revisionAnnotation]); err == nil {
			numbers = append(numbers, n)
		}
	}
	if len(numbers) == 0 {
		return ""
	}
	return strconv.Itoa(slices.Max(numbers))
}

// number gives a Deployment the highest number of its ReplicaSets, and says
// whether it had another one.
func (s *Controller) number(k key, obj *unstructured.Unstructured) bool {
	newest, annotations := s.newest(k, obj.GetUID()), obj.GetAnnotations()
	if newest == "" || annotations[revisionAnnotation] == newest {
		return false
	}
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[revisionAnnotation] = newest
	obj.SetAnnotations(annotations)
	return true
}
