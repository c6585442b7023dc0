package kube

import (
	"reflect"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// countsGenerations are the resources whose objects have a generation.
var countsGenerations = map[string]bool{
	"deployments": true, "replicasets": true, "jobs": true, "pods": true,
	"physicalclusters": true, "placements": true, "clusterplacementpolicies": true, "placementpolicies": true, "orphans": true,
	"manifests": true,
}

// hasStatus are the resources whose objects have a status from the beginning.
var hasStatus = map[string]bool{"services": true, "deployments": true, "replicasets": true, "jobs": true, "pods": true, "statefulsets": true}

// protectedBy are the finalizers of what is kept as long as it is used.
var protectedBy = map[string]string{"persistentvolumeclaims": "kubernetes.io/pvc-protection", "persistentvolumes": "kubernetes.io/pv-protection"}

// setDefaults fills in what a server decides about a new object.
func setDefaults(gr schema.GroupResource, obj Object, s *Server) {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return
	}
	switch gr.Resource {
	case "namespaces":
		u.Object["spec"] = map[string]any{"finalizers": []any{"kubernetes"}}
		u.Object["status"] = map[string]any{"phase": "Active"}
	case "deployments":
		setDefault(u, int64(1), "spec", "replicas")
		setDefault(u, int64(600), "spec", "progressDeadlineSeconds")
	case "services":
		setDefault(u, "10.0.0."+strconv.FormatInt(s.uids, 10), "spec", "clusterIP")
	case "pods":
		setDefault(u, int64(30), "spec", "terminationGracePeriodSeconds")
	case "persistentvolumeclaims", "persistentvolumes":
		setDefault(u, map[string]any{"phase": "Pending"}, "status")
		if protection := protectedBy[gr.Resource]; !s.Logical {
			u.SetFinalizers(append(u.GetFinalizers(), protection))
		}
	}
	if hasStatus[gr.Resource] && u.Object["status"] == nil {
		u.Object["status"] = map[string]any{}
	}
}

func setDefault(u *unstructured.Unstructured, value any, path ...string) {
	if _, found, _ := unstructured.NestedFieldNoCopy(u.Object, path...); !found {
		_ = unstructured.SetNestedField(u.Object, value, path...) // a path of maps
	}
}

// prepareUpdate is obj with what an update cannot change taken from old.
func prepareUpdate(obj, old Object, status bool) Object {
	if status {
		out := old.DeepCopyObject().(Object)
		if u, ok := received(obj).(*unstructured.Unstructured); ok {
			out.(*unstructured.Unstructured).Object["status"] = u.Object["status"]
		}
		return out
	}
	out := received(obj)
	out.SetUID(old.GetUID())
	out.SetResourceVersion(old.GetResourceVersion())
	out.SetGeneration(old.GetGeneration())
	out.SetCreationTimestamp(old.GetCreationTimestamp())
	out.SetDeletionTimestamp(old.GetDeletionTimestamp())
	out.SetDeletionGracePeriodSeconds(old.GetDeletionGracePeriodSeconds())
	if u, ok := out.(*unstructured.Unstructured); ok {
		if status, ok := old.(*unstructured.Unstructured).Object["status"]; ok {
			u.Object["status"] = status
		} else {
			delete(u.Object, "status")
		}
	}
	return out
}

func sameContent(a, b Object) bool { return equality.Semantic.DeepEqual(a, b) }

// sameSpec compares all that counts for the generation.
func sameSpec(a, b Object) bool {
	x, ok := a.(*unstructured.Unstructured)
	if !ok {
		return equality.Semantic.DeepEqual(fieldOf(a, "Spec"), fieldOf(b, "Spec"))
	}
	y := b.(*unstructured.Unstructured)
	for _, u := range []*unstructured.Unstructured{x, y} {
		for name := range u.Object {
			if name != "metadata" && name != "status" && !equality.Semantic.DeepEqual(x.Object[name], y.Object[name]) {
				return false
			}
		}
	}
	return true
}

// fieldOf is a field of a typed object; nil if it has none.
func fieldOf(obj Object, name string) any {
	if f := reflect.ValueOf(obj).Elem().FieldByName(name); f.IsValid() {
		return f.Interface()
	}
	return nil
}

// decode gives numbers the types that they have after a request was decoded.
func decode(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for name, e := range v {
			v[name] = decode(e)
		}
	case []any:
		for i, e := range v {
			v[i] = decode(e)
		}
	case float64:
		if v == float64(int64(v)) {
			return int64(v)
		}
	}
	return value
}

// received is a copy of what a client sent.
func received(obj Object) Object {
	out := obj.DeepCopyObject().(Object)
	if u, ok := out.(*unstructured.Unstructured); ok {
		decode(u.Object)
	}
	return out
}

// Immutable is what a physical cluster says about a changed template of a Job.
const Immutable = "field is immutable"

func validateUpdate(gr schema.GroupResource, obj, old Object) error {
	for _, f := range obj.GetFinalizers() {
		if old.GetDeletionTimestamp() != nil && !slices.Contains(old.GetFinalizers(), f) {
			return apierrors.NewInvalid(schema.GroupKind{Group: gr.Group, Kind: gr.Resource}, obj.GetName(), field.ErrorList{
				field.Forbidden(field.NewPath("metadata", "finalizers"), "no new finalizers can be added if the object is being deleted"),
			})
		}
	}
	u, ok := obj.(*unstructured.Unstructured)
	if !ok || gr.Resource != "jobs" || mutableJobs(obj) {
		return nil
	}
	before, _, _ := unstructured.NestedFieldNoCopy(old.(*unstructured.Unstructured).Object, "spec", "template", "spec")
	after, _, _ := unstructured.NestedFieldNoCopy(u.Object, "spec", "template", "spec")
	if equality.Semantic.DeepEqual(before, after) {
		return nil
	}
	return apierrors.NewInvalid(u.GroupVersionKind().GroupKind(), u.GetName(), field.ErrorList{
		field.Invalid(field.NewPath("spec", "template"), "", Immutable),
	})
}

// mutableJobs: objects of a logical cluster. Their templates cannot be changed in
// earnest either; that they can here means a new version of the syncer,
// which transforms the same template into another one.
func mutableJobs(obj Object) bool { return obj.GetAnnotations()["kcp.io/cluster"] != "" }

// isReleased says that nothing keeps an object that is being deleted.
func isReleased(gr schema.GroupResource, obj Object) bool {
	if obj.GetDeletionTimestamp() == nil || len(obj.GetFinalizers()) > 0 {
		return false
	}
	if grace := obj.GetDeletionGracePeriodSeconds(); grace != nil && *grace > 0 {
		return false
	}
	if u, ok := obj.(*unstructured.Unstructured); ok && gr == Namespaces {
		finalizers, _, _ := unstructured.NestedStringSlice(u.Object, "spec", "finalizers")
		return len(finalizers) == 0
	}
	return true
}

// beforeDelete is old once a request to delete it was accepted.
func beforeDelete(gr schema.GroupResource, old Object, o DeleteOptions, now time.Time) Object {
	obj := old.DeepCopyObject().(Object)
	grace := graceOf(gr, old, o)
	if before := old.GetDeletionGracePeriodSeconds(); old.GetDeletionTimestamp() != nil && before != nil {
		grace = min(grace, *before)
	}
	if old.GetDeletionTimestamp() == nil {
		obj.SetFinalizers(propagated(old.GetFinalizers(), o.Propagation))
		if obj.GetGeneration() > 0 {
			obj.SetGeneration(obj.GetGeneration() + 1)
		}
	}
	at := metav1.NewTime(now.Add(time.Duration(grace) * time.Second))
	if old.GetDeletionTimestamp() == nil || grace != *old.GetDeletionGracePeriodSeconds() {
		obj.SetDeletionTimestamp(&at)
	}
	obj.SetDeletionGracePeriodSeconds(&grace)
	if u, ok := obj.(*unstructured.Unstructured); ok && gr == Namespaces {
		u.Object["status"] = map[string]any{"phase": "Terminating"}
	}
	return obj
}

// graceOf is how long an object may take to go: Pods on a node some time,
// anything else none.
func graceOf(gr schema.GroupResource, obj Object, o DeleteOptions) int64 {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok || gr.Resource != "pods" {
		return 0
	}
	if node, _, _ := unstructured.NestedString(u.Object, "spec", "nodeName"); node == "" {
		return 0
	}
	if o.Grace != nil {
		return *o.Grace
	}
	return 30
}

// propagated are the finalizers with which the garbage collector is asked.
func propagated(finalizers []string, p metav1.DeletionPropagation) []string {
	out := slices.DeleteFunc(slices.Clone(finalizers), func(f string) bool {
		return f == metav1.FinalizerOrphanDependents || f == metav1.FinalizerDeleteDependents
	})
	switch p {
	case metav1.DeletePropagationOrphan:
		out = append(out, metav1.FinalizerOrphanDependents)
	case metav1.DeletePropagationForeground:
		out = append(out, metav1.FinalizerDeleteDependents)
	}
	if len(out) == 0 {
		return nil
	}
	return out
}
