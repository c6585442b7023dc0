package main

import (
	"context"
	"fmt"
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
)

// kind is what is created, read, changed and deleted.
type kind struct {
	name string
	// in binds the kind to a namespace of a client.
	in func(c kubernetes.Interface, namespace string) objects
}

// objects are the operations on one kind in one namespace. Names count from 0.
type objects struct {
	create, get, update, remove func(ctx context.Context, name string) error
	list                        func(ctx context.Context) error
	// elsewhere writes an object of another kind.
	elsewhere func(ctx context.Context) error
}

// stock is what upstream's typed clients offer.
type stock[T metav1.Object, L runtime.Object] interface {
	Create(context.Context, T, metav1.CreateOptions) (T, error)
	Get(context.Context, string, metav1.GetOptions) (T, error)
	Update(context.Context, T, metav1.UpdateOptions) (T, error)
	Delete(context.Context, string, metav1.DeleteOptions) error
	List(context.Context, metav1.ListOptions) (L, error)
}

// of makes the operations of a client. fresh makes an object, change makes a
// difference to its spec. Updates are unconditional: controllers may have
// written a status meanwhile.
func of[T metav1.Object, L runtime.Object](client stock[T, L], fresh func(metav1.ObjectMeta) T, change func(T)) objects {
	made := map[string]T{}
	return objects{
		create: func(ctx context.Context, name string) error {
			obj, err := client.Create(ctx, fresh(metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "bench"}}), metav1.CreateOptions{})
			made[name] = obj
			return err
		},
		get: func(ctx context.Context, name string) error {
			_, err := client.Get(ctx, name, metav1.GetOptions{})
			return err
		},
		update: func(ctx context.Context, name string) error {
			obj := made[name]
			change(obj)
			obj.SetResourceVersion("")
			_, err := client.Update(ctx, obj, metav1.UpdateOptions{})
			return err
		},
		remove: func(ctx context.Context, name string) error {
			delete(made, name)
			return client.Delete(ctx, name, metav1.DeleteOptions{})
		},
		list: func(ctx context.Context) error {
			_, err := client.List(ctx, metav1.ListOptions{})
			return err
		},
	}
}

// A small object, one that a controller of a stock cluster answers to, and one as
// large that none answers to.
var (
	configMapKind = kind{name: "ConfigMap", in: func(c kubernetes.Interface, namespace string) objects {
		return of(c.CoreV1().ConfigMaps(namespace), newConfigMap, func(o *corev1.ConfigMap) { o.Data["changed"] = "yes" })
	}}
	deploymentKind = kind{name: "Deployment", in: func(c kubernetes.Interface, namespace string) objects {
		return of(c.AppsV1().Deployments(namespace), newDeployment, func(o *appsv1.Deployment) { o.Spec.Template.Spec.Containers[0].Image = "nginx:1.29" })
	}}
	podTemplateKind = kind{name: "PodTemplate", in: func(c kubernetes.Interface, namespace string) objects {
		return of(c.CoreV1().PodTemplates(namespace), newPodTemplate, func(o *corev1.PodTemplate) { o.Template.Spec.Containers[0].Image = "nginx:1.29" })
	}}
)

func newConfigMap(m metav1.ObjectMeta) *corev1.ConfigMap {
	data := map[string]string{}
	for i := range 8 {
		data[fmt.Sprintf("setting-%d", i)] = "a value that is neither short nor long"
	}
	return &corev1.ConfigMap{ObjectMeta: m, Data: data}
}

// newDeployment has no replicas and is paused, so that a stock cluster makes no
// ReplicaSet of it: its controller does write the status.
func newDeployment(m metav1.ObjectMeta) *appsv1.Deployment {
	var none int32
	return &appsv1.Deployment{ObjectMeta: m, Spec: appsv1.DeploymentSpec{
		Replicas: &none, Paused: true, Selector: &metav1.LabelSelector{MatchLabels: maps.Clone(m.Labels)}, Template: podTemplate(m.Labels),
	}}
}

func newPodTemplate(m metav1.ObjectMeta) *corev1.PodTemplate {
	return &corev1.PodTemplate{ObjectMeta: m, Template: podTemplate(m.Labels)}
}

func podTemplate(labels map[string]string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: maps.Clone(labels)},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "web", Image: "nginx:1.28",
			Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 80}},
			Env:   []corev1.EnvVar{{Name: "GREETING", Value: "hello"}, {Name: "TARGET", Value: "world"}},
		}}},
	}
}
