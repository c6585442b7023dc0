package boundary

import (
	"reflect"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// roots are the types of the kinds that may have copies.
var roots = map[schema.GroupVersionKind]reflect.Type{
	corev1.SchemeGroupVersion.WithKind("Namespace"):                      reflect.TypeFor[corev1.Namespace](),
	corev1.SchemeGroupVersion.WithKind("LimitRange"):                     reflect.TypeFor[corev1.LimitRange](),
	corev1.SchemeGroupVersion.WithKind("ResourceQuota"):                  reflect.TypeFor[corev1.ResourceQuota](),
	corev1.SchemeGroupVersion.WithKind("Secret"):                         reflect.TypeFor[corev1.Secret](),
	corev1.SchemeGroupVersion.WithKind("ConfigMap"):                      reflect.TypeFor[corev1.ConfigMap](),
	corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"):          reflect.TypeFor[corev1.PersistentVolumeClaim](),
	corev1.SchemeGroupVersion.WithKind("Service"):                        reflect.TypeFor[corev1.Service](),
	corev1.SchemeGroupVersion.WithKind("ReplicationController"):          reflect.TypeFor[corev1.ReplicationController](),
	corev1.SchemeGroupVersion.WithKind("Pod"):                            reflect.TypeFor[corev1.Pod](),
	appsv1.SchemeGroupVersion.WithKind("Deployment"):                     reflect.TypeFor[appsv1.Deployment](),
	appsv1.SchemeGroupVersion.WithKind("StatefulSet"):                    reflect.TypeFor[appsv1.StatefulSet](),
	appsv1.SchemeGroupVersion.WithKind("DaemonSet"):                      reflect.TypeFor[appsv1.DaemonSet](),
	appsv1.SchemeGroupVersion.WithKind("ReplicaSet"):                     reflect.TypeFor[appsv1.ReplicaSet](),
	batchv1.SchemeGroupVersion.WithKind("Job"):                           reflect.TypeFor[batchv1.Job](),
	batchv1.SchemeGroupVersion.WithKind("CronJob"):                       reflect.TypeFor[batchv1.CronJob](),
	networkingv1.SchemeGroupVersion.WithKind("Ingress"):                  reflect.TypeFor[networkingv1.Ingress](),
	networkingv1.SchemeGroupVersion.WithKind("NetworkPolicy"):            reflect.TypeFor[networkingv1.NetworkPolicy](),
	policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget"):          reflect.TypeFor[policyv1.PodDisruptionBudget](),
	autoscalingv2.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler"): reflect.TypeFor[autoscalingv2.HorizontalPodAutoscaler](),
}

// leaves are structs that are written as one value.
var leaves = map[reflect.Type]bool{
	reflect.TypeFor[metav1.Time]():        true,
	reflect.TypeFor[resource.Quantity]():  true,
	reflect.TypeFor[intstr.IntOrString](): true,
}

// structure is a type of the API with the verdicts on its fields.
type structure struct {
	fields map[string]member
	// typed says that it may name its version and kind.
	typed bool
}

// member is one field: inlined ones are members of the structure that they are
// inlined into.
type member struct {
	row
	name string     // such as "core/v1 PodSpec.nodeName"
	part *structure // of its value, or of each item or entry; nil for a plain value
}

// structures are made once, from the types and the table; podTemplate is that of all
// kinds that make pods.
var structures, podTemplate = func() (byKind map[schema.GroupVersionKind]*structure, podTemplate *structure) {
	made := map[reflect.Type]*structure{}
	byKind = map[schema.GroupVersionKind]*structure{}
	for gvk, t := range roots {
		byKind[gvk] = structureOf(t, made)
	}
	return byKind, structureOf(reflect.TypeFor[corev1.PodTemplateSpec](), made)
}()

var claimKind = corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim")

// structureOf makes the structure of a type, and those of its parts; nil for a
// type without fields.
func structureOf(t reflect.Type, made map[reflect.Type]*structure) *structure {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || leaves[t] {
		return nil
	}
	if s := made[t]; s != nil {
		return s
	}
	s := &structure{fields: map[string]member{}}
	_, s.typed = t.FieldByName("TypeMeta")
	made[t] = s // before its fields: a type may contain itself
	for owner, f := range fields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		r, ok := rows[typeName(owner)][name]
		if !ok {
			continue // does not go down: the table does not know it
		}
		m := member{row: r, name: typeName(owner) + "." + name}
		switch r.verdict {
		case AsIs, Judged, Own, Mapped, Stripped, Refused: // what is its own may be kept by a handler
			m.part = structureOf(f.Type, made)
		}
		s.fields[name] = m
	}
	return s
}

// fields yields the fields of a type that have a name in JSON, with the type that
// declares them: inlined types are looked into.
func fields(t reflect.Type) func(yield func(reflect.Type, reflect.StructField) bool) {
	return func(yield func(reflect.Type, reflect.StructField) bool) {
		for i := range t.NumField() {
			f := t.Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			switch {
			case f.Type == reflect.TypeFor[metav1.TypeMeta]():
			case name == "" && f.Anonymous:
				for owner, inner := range fields(f.Type) {
					if !yield(owner, inner) {
						return
					}
				}
			case !yield(t, f):
				return
			}
		}
	}
}

// typeName is how the table calls a type: the group's folder, version and name.
func typeName(t reflect.Type) string {
	path := strings.Split(t.PkgPath(), "/")
	return strings.Join(path[len(path)-2:], "/") + " " + t.Name()
}
