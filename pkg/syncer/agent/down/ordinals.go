package down

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/connection"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/view"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// podsPage is how many pods are asked for at a time.
const podsPage = 500

// lookAtPods asks the API server below, and not a cache, which pods of a StatefulSet there are:
// by their names, whoever owns them.
func (p *pass) lookAtPods(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, connection.RequestTimeout)
	defer cancel()
	client := p.Down.Metadata.Resource(corev1.SchemeGroupVersion.WithResource("pods")).Namespace(p.in.Namespace.Name)
	var names []string
	for options := (metav1.ListOptions{Limit: podsPage}); ; {
		list, err := client.List(ctx, options)
		if err != nil {
			return fmt.Errorf("looking for the pods of a StatefulSet: %w", err)
		}
		for i := range list.Items {
			names = append(names, list.Items[i].Name)
		}
		if options.Continue = list.Continue; options.Continue == "" {
			break
		}
	}
	ordinals := syncer.OrdinalsOf(p.key.Request.Name, names)
	p.in.Pods = &ordinals
	return nil
}

// readScaling finds out what an object has to do with autoscalers where ordinals are divided.
func (p *pass) readScaling() {
	if p.in.Logical == nil {
		return
	}
	if group, kind, name := workload.Scaled(p.kind, p.in.Logical.Object); name != "" {
		for _, k := range p.View.Kinds().Kinds() {
			if k.Group == group && k.Kind == kind {
				scaled, _ := p.View.Object(view.ObjectKey{
					Resource: k.GroupVersionResource(),
					Request:  controller.Request{Cluster: p.key.Request.Cluster, Namespace: p.key.Request.Namespace, Name: name},
				})
				p.in.ScalesRange = syncer.ScalesRange(scaled, p.View.Target)
			}
		}
	}
	if p.kind.Semantics == workload.StatefulSetSemantics && syncer.ScalesRange(p.in.Logical, p.View.Target) {
		p.in.ScaledBelow = p.scaledBelow()
	}
}

// scaledBelow says that an autoscaler of the object may be below. One that is not in view any more
// may have been its own: until its copy is gone.
func (p *pass) scaledBelow() bool {
	for key, c := range p.View.CopiesIn(p.key.Request.Cluster, p.key.Request.Namespace) {
		kind, ok := p.View.PlacedKind(key.Resource)
		if !ok || len(kind.Scales) == 0 || !syncer.MayBeBelow(c) {
			continue
		}
		scaler, seen := p.View.Object(key)
		if !seen {
			return true
		}
		group, scaled, name := workload.Scaled(kind, scaler.Object)
		if group == p.kind.Group && scaled == p.kind.Kind && name == p.key.Request.Name {
			return true
		}
	}
	return false
}
