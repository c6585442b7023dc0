package admission

import (
	"context"
	"fmt"

	"github.com/kcp-dev/logicalcluster/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubernetes/pkg/apis/apps"
	"k8s.io/kubernetes/pkg/apis/batch"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/utils/ptr"

	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// runtimeHandler notes on an object with pods which handler the RuntimeClass that
// it names has in this logical cluster: below, the name means something else. The
// handler of a class never changes. A class that is not there is noted by nothing.
func (p *plugin) runtimeHandler(ctx context.Context, r *request) error {
	if !r.user() || r.GetSubresource() != "" {
		return nil
	}
	spec := podSpec(r.GetObject())
	if spec == nil {
		return nil
	}
	handler, err := p.lookup.handler(ctx, r.cluster, ptr.Deref(spec.RuntimeClassName, ""))
	if err != nil {
		return err
	}
	stamp.RuntimeHandler(r.obj, handler)
	return nil
}

// handler is that of a RuntimeClass of a logical cluster; empty if it has none of that name.
func (l *lookup) handler(ctx context.Context, cluster logicalcluster.Name, name string) (string, error) {
	if name == "" {
		return "", nil
	}
	class, err := l.kube.NodeV1().RuntimeClasses().Get(at(ctx, cluster), name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return "", nil
	case err != nil:
		return "", apierrors.NewInternalError(fmt.Errorf("reading runtime class %s: %w", name, err))
	}
	return class.Handler, nil
}

// supposeHandler notes on the object of a review what runtimeHandler would note.
func (d *decider) supposeHandler(ctx context.Context, q question) error {
	obj, ok := q.object.(*unstructured.Unstructured)
	if !ok || q.kind.Declared { // of these, nothing is noted
		return nil
	}
	named := ""
	for _, template := range workload.PodTemplates(q.kind, obj.Object) {
		if name, _, _ := unstructured.NestedString(template, "spec", "runtimeClassName"); name != "" {
			named = name
		}
	}
	handler, err := d.lookup.handler(ctx, q.cluster, named)
	if err != nil {
		return err
	}
	stamp.RuntimeHandler(obj, handler)
	return nil
}

// podSpec is that of a pod or of a template for pods; nil if there is none.
func podSpec(obj runtime.Object) *core.PodSpec {
	switch o := obj.(type) {
	case *core.Pod:
		return &o.Spec
	case *apps.Deployment:
		return &o.Spec.Template.Spec
	case *apps.StatefulSet:
		return &o.Spec.Template.Spec
	case *apps.DaemonSet:
		return &o.Spec.Template.Spec
	case *apps.ReplicaSet:
		return &o.Spec.Template.Spec
	case *batch.Job:
		return &o.Spec.Template.Spec
	case *batch.CronJob:
		return &o.Spec.JobTemplate.Spec.Template.Spec
	case *core.ReplicationController:
		if o.Spec.Template != nil {
			return &o.Spec.Template.Spec
		}
	}
	return nil
}
