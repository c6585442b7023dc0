package status

import (
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/atoll-dev/atoll/pkg/controller"
)

// revisionAnnotation is how the deployment controller numbers ReplicaSets, and
// says on the Deployment which is the newest. It does so below; the ReplicaSets
// are mirrored with theirs.
const revisionAnnotation = "deployment.kubernetes.io/revision"

// What has the number of its newest, and what has numbers.
var (
	numbered  = appsv1.SchemeGroupVersion.WithResource("deployments")
	numbering = appsv1.SchemeGroupVersion.WithResource("replicasets")
)

// followRevisions has a Deployment looked at when a ReplicaSet of it gets another
// number, or when its own was taken off.
func (s *Controller) followRevisions() {
	if informer := s.Metadata.For(numbering); informer != nil {
		informer.Handle(func(old, new *metav1.PartialObjectMetadata) {
			if new == nil || new.Annotations[revisionAnnotation] == "" || old != nil && old.Annotations[revisionAnnotation] == new.Annotations[revisionAnnotation] {
				return
			}
			if owner := metav1.GetControllerOfNoCopy(new); owner != nil && owner.Kind == "Deployment" {
				r := controller.RequestFor(new)
				r.Name = owner.Name
				s.queue.Enqueue(key{Resource: numbered.GroupResource(), Object: r})
			}
		})
	}
	if informer := s.Metadata.For(numbered); informer != nil {
		informer.Handle(func(old, new *metav1.PartialObjectMetadata) {
			if old != nil && new != nil && old.Annotations[revisionAnnotation] != new.Annotations[revisionAnnotation] {
				s.queue.Enqueue(key{Resource: numbered.GroupResource(), Object: controller.RequestFor(new)})
			}
		})
	}
}

// newest is the highest number of the ReplicaSets of a Deployment, empty if it has
// none or is something else.
func (s *Controller) newest(k key, uid types.UID) string {
	if k.Resource != numbered.GroupResource() || s.Metadata == nil {
		return ""
	}
	informer := s.Metadata.For(numbering)
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
