package attack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

// plantedSecret is what a planted template opens.
const plantedSecret = "treasure"

var history = Attack{
	Name: "a template that a syncer planted in the history of a workload is none that rollout undo brings back",
	Fence: func(ctx context.Context, w *World) error {
		kept, err := w.plantHistory(ctx, false)
		if err == nil && len(kept) > 0 {
			err = fmt.Errorf("the planted template is in the history of %v", kept)
		}
		return err
	},
	Control: func(ctx context.Context, w *World) error {
		kept, err := w.plantHistory(ctx, true)
		if err == nil && len(kept) != 2 {
			err = fmt.Errorf("a template that the user once wrote is in the history of %v only", kept)
		}
		return err
	},
}

var nobodysHistory = Attack{
	Name: "a template that a syncer planted as the history of nobody is not there to be adopted",
	Fence: func(ctx context.Context, w *World) error {
		kept, err := w.plantNobodys(ctx, w.mallory)
		if err == nil && len(kept) > 0 {
			err = fmt.Errorf("the planted template is in %v", kept)
		}
		return err
	},
	Control: func(ctx context.Context, w *World) error { // what a user writes is the user's own
		kept, err := w.plantNobodys(ctx, w.admin)
		if err == nil && len(kept) != 4 {
			err = fmt.Errorf("a template that a user wrote is in %v only", kept)
		}
		return err
	},
}

// plantNobodys writes ReplicaSets and ControllerRevisions that nobody owns, and that somebody owns who
// does not exist, with a template that opens a Secret, and returns where it stays.
func (w *World) plantNobodys(ctx context.Context, who clients) (kept []string, err error) {
	if ctx, err = w.placed(ctx); err != nil {
		return nil, err
	}
	view := ctx
	if who == w.mallory {
		view = withTarget(ctx)
	}
	labels := map[string]string{"app": "nobodys"}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Name: "c", Image: "nginx"}},
		Volumes:    []corev1.Volume{{Name: "s", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: plantedSecret}}}},
	}}
	data, err := json.Marshal(map[string]any{"spec": map[string]any{"template": template}})
	if err != nil {
		return nil, err
	}
	for name, owners := range map[string][]metav1.OwnerReference{
		"unowned": nil, "forged": {{APIVersion: "example.com/v1", Kind: "Rollout", Name: "app", UID: "forged", Controller: ptr.To(true)}},
	} {
		meta := metav1.ObjectMeta{Name: "nobodys-" + name, OwnerReferences: owners, Annotations: map[string]string{placementv1alpha1.UIDAnnotation: "nobodys-" + name}}
		set := &appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Replicas: ptr.To[int32](0), Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template}}
		stored, err := who.kube.AppsV1().ReplicaSets("web").Create(view, set, metav1.CreateOptions{})
		if err != nil {
			return nil, fmt.Errorf("planting a ReplicaSet: %w", err)
		}
		if len(stored.Spec.Template.Spec.Volumes) > 0 {
			kept = append(kept, "ReplicaSet "+name)
		}
		revision, err := who.kube.AppsV1().ControllerRevisions("web").Create(view, &appsv1.ControllerRevision{ObjectMeta: meta, Revision: 1, Data: runtime.RawExtension{Raw: data}}, metav1.CreateOptions{})
		if err != nil {
			return nil, fmt.Errorf("planting a ControllerRevision: %w", err)
		}
		if strings.Contains(string(revision.Data.Raw), plantedSecret) {
			kept = append(kept, "ControllerRevision "+name)
		}
	}
	return kept, nil
}

// plantHistory mirrors a ReplicaSet and a ControllerRevision with a template that opens a
// Secret, and returns where it stays. had says that the user has written it once.
func (w *World) plantHistory(ctx context.Context, had bool) (kept []string, err error) {
	if ctx, err = w.placed(ctx); err != nil {
		return nil, err
	}
	apps, planted := w.admin.kube.AppsV1(), w.mallory.kube.AppsV1()
	deployment, err := apps.Deployments("web").Get(ctx, "app", metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	honest := deployment.Spec.Template
	evil := *honest.DeepCopy()
	evil.Spec.Containers[0].Image = "evil"
	evil.Spec.Volumes = []corev1.Volume{{Name: "s", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: plantedSecret}}}}
	set, err := apps.StatefulSets("web").Create(ctx, &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "db"},
		Spec: appsv1.StatefulSetSpec{Selector: deployment.Spec.Selector, Template: honest}}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("creating a StatefulSet: %w", err)
	}
	if had {
		for _, template := range []corev1.PodTemplateSpec{evil, honest} {
			if err := w.rollOut(ctx, template); err != nil {
				return nil, err
			}
		}
	}
	meta := func(name, kind string, of metav1.Object) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: name, Labels: honest.Labels,
			Annotations:     map[string]string{placementv1alpha1.UIDAnnotation: "1", "deployment.kubernetes.io/revision": "7"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: of.GetName(), UID: of.GetUID(), Controller: ptr.To(true)}}}
	}
	// Kinds of owners are not asked by kubectl.
	replicas := &appsv1.ReplicaSet{ObjectMeta: meta("app-planted", "Rollout", deployment), Spec: appsv1.ReplicaSetSpec{Selector: deployment.Spec.Selector, Template: evil}}
	if _, err := planted.ReplicaSets("web").Create(withTarget(ctx), replicas, metav1.CreateOptions{}); err != nil {
		return nil, fmt.Errorf("planting a ReplicaSet: %w", err)
	}
	data, err := json.Marshal(map[string]any{"spec": map[string]any{"serviceName": plantedSecret, "template": struct {
		Patch string `json:"$patch"`
		corev1.PodTemplateSpec
	}{"replace", evil}}})
	if err != nil {
		return nil, err
	}
	revision := &appsv1.ControllerRevision{ObjectMeta: meta("db-planted", "StatefulSet", set), Revision: 7, Data: runtime.RawExtension{Raw: data}}
	if _, err := planted.ControllerRevisions("web").Create(withTarget(ctx), revision, metav1.CreateOptions{}); err != nil {
		return nil, fmt.Errorf("planting a ControllerRevision: %w", err)
	}
	stored, err := apps.ReplicaSets("web").Get(ctx, "app-planted", metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	if len(stored.Spec.Template.Spec.Volumes) > 0 || stored.Spec.Template.Spec.Containers[0].Image == "evil" {
		kept = append(kept, "ReplicaSet")
	}
	revised, err := apps.ControllerRevisions("web").Get(ctx, "db-planted", metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	switch text := string(revised.Data.Raw); {
	case strings.Contains(text, "serviceName"):
		return nil, errors.New("a ControllerRevision says more than a template")
	case strings.Contains(text, plantedSecret), strings.Contains(text, "evil"):
		kept = append(kept, "ControllerRevision")
	case !strings.Contains(text, "nginx"):
		return nil, fmt.Errorf("the history says %s", text)
	}
	return kept, nil
}

// rollOut writes a template, as a user.
func (w *World) rollOut(ctx context.Context, template corev1.PodTemplateSpec) error {
	apps := w.admin.kube.AppsV1()
	return eventually(ctx, "rolling out", func() error {
		deployment, err := apps.Deployments("web").Get(ctx, "app", metav1.GetOptions{})
		if err != nil {
			return err
		}
		deployment.Spec.Template = template
		if _, err := apps.Deployments("web").Update(ctx, deployment, metav1.UpdateOptions{}); err != nil {
			return err
		}
		set, err := apps.StatefulSets("web").Get(ctx, "db", metav1.GetOptions{})
		if err != nil {
			return err
		}
		set.Spec.Template = template
		_, err = apps.StatefulSets("web").Update(ctx, set, metav1.UpdateOptions{})
		return err
	})
}
