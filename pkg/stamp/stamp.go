package stamp

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/kcp-dev/logicalcluster/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// Cluster writes the annotation of the logical cluster.
func Cluster(obj metav1.Object, cluster logicalcluster.Name) {
	annotate(obj, logicalcluster.AnnotationKey, cluster.String())
}

// Set gives an object its targets, and our finalizer for as long as one of them has
// a copy. An object without targets has neither. The finalizer of an object that was
// mirrored stays as it is: its deletion may have to be carried out below, see
// Observed.
func Set(obj metav1.Object, targets placementv1alpha1.Targets) {
	if Mirrored(obj) && len(targets) > 0 && !mirrored(targets) {
		annotate(obj, placementv1alpha1.MirroredAnnotation, "true") // only claims become copies, see copied
	}
	annotate(obj, placementv1alpha1.TargetsAnnotation, targets.String())
	copies, observed := false, false
	for _, target := range targets {
		copies = copies || target.State != placementv1alpha1.TargetObserved
		observed = observed || target.State == placementv1alpha1.TargetObserved
	}
	switch {
	case copies && obj.GetDeletionTimestamp() == nil: // no finalizer is added to what is being deleted
		hold(obj)
	case !copies && !observed:
		Release(obj)
	}
}

// Show gives an object that has no copies the targets whose syncers may see it.
func Show(obj metav1.Object, targets placementv1alpha1.Targets) {
	annotate(obj, placementv1alpha1.TargetsAnnotation, targets.String())
}

// hold adds our finalizer.
func hold(obj metav1.Object) {
	if !slices.Contains(obj.GetFinalizers(), placementv1alpha1.CopiesFinalizer) {
		obj.SetFinalizers(append(slices.Clone(obj.GetFinalizers()), placementv1alpha1.CopiesFinalizer))
	}
}

// Release takes our finalizer off.
func Release(obj metav1.Object) {
	if slices.Contains(obj.GetFinalizers(), placementv1alpha1.CopiesFinalizer) {
		obj.SetFinalizers(slices.DeleteFunc(slices.Clone(obj.GetFinalizers()), func(f string) bool {
			return f == placementv1alpha1.CopiesFinalizer
		}))
	}
}

// Observed stamps an object of a kind that is mirrored from a physical cluster, where
// it has the given UID. If its deletion is to be carried out there, the finalizer
// keeps it until that is done.
func Observed(kind workload.Kind, obj metav1.Object, target string, uid types.UID) {
	if kind.DeletedBelow() {
		hold(obj)
	}
	annotate(obj, placementv1alpha1.TargetsAnnotation, placementv1alpha1.Targets{
		target: {State: placementv1alpha1.TargetObserved, UID: uid},
	}.String())
}

// Adopted are the targets of an object of a user whose copy on a target, which has
// the given UID, a controller there has taken over.
func Adopted(target string, uid types.UID) placementv1alpha1.Targets {
	return placementv1alpha1.Targets{target: {State: placementv1alpha1.TargetObserved, UID: uid, Adopted: true}}
}

// RuntimeHandler notes the handler of the RuntimeClass that an object names; none
// takes the note off.
func RuntimeHandler(obj metav1.Object, handler string) {
	annotate(obj, placementv1alpha1.RuntimeHandlerAnnotation, handler)
}

// NodePorts notes which ports of nodes the user of a Service asks for; none takes the note off.
func NodePorts(obj metav1.Object, ports []int64) {
	texts := make([]string, 0, len(ports))
	for _, port := range ports {
		texts = append(texts, strconv.FormatInt(port, 10))
	}
	annotate(obj, placementv1alpha1.NodePortsAnnotation, strings.Join(texts, ","))
}

// NodePortsOf are those ports.
func NodePortsOf(annotations map[string]string) []int64 {
	var ports []int64
	for text := range strings.SplitSeq(annotations[placementv1alpha1.NodePortsAnnotation], ",") {
		if port, err := strconv.ParseInt(text, 10, 64); err == nil {
			ports = append(ports, port)
		}
	}
	return ports
}

// Templates notes the digests of the pod templates that an object has had.
func Templates(obj metav1.Object, digests string) {
	annotate(obj, placementv1alpha1.TemplatesAnnotation, digests)
}

// TemplatesOf are those digests.
func TemplatesOf(obj metav1.Object) string {
	return obj.GetAnnotations()[placementv1alpha1.TemplatesAnnotation]
}

// annotate sets one annotation, or takes it off if value is empty, in a copy of the
// map: objects in admission may share theirs.
func annotate(obj metav1.Object, key, value string) {
	current, ok := obj.GetAnnotations()[key]
	if current == value && (ok || value == "") {
		return
	}
	annotations := maps.Clone(obj.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	if annotations[key] = value; value == "" {
		delete(annotations, key)
	}
	obj.SetAnnotations(annotations)
}
