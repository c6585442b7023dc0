package admission

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubernetes/pkg/apis/apps"
	"k8s.io/kubernetes/pkg/apis/batch"
	"k8s.io/kubernetes/pkg/apis/core"

	"github.com/atoll-dev/atoll/pkg/stamp"
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
	handler := ""
	if name := spec.RuntimeClassName; name != nil && *name != "" {
		class, err := p.lookup.kube.NodeV1().RuntimeClasses().Get(at(ctx, r.cluster), *name, metav1.GetOptions{})
		switch {
		case err == nil:
			handler = class.Handler
		case !apierrors.IsNotFound(err):
			return apierrors.NewInternalError(fmt.Errorf("reading runtime class %s: %w", *name, err))
		}
	}
	stamp.RuntimeHandler(r.obj, handler)
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
