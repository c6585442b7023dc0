package agent

import (
	"context"
	"fmt"

	nodev1 "k8s.io/api/node/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/atoll-dev/atoll/pkg/syncer"
)

var runtimeClasses = nodev1.SchemeGroupVersion.WithResource("runtimeclasses")

// readRuntimeClasses asks for what the physical cluster offers, for an object whose
// pods need a runtime of their own: few do.
func (p *pass) readRuntimeClasses(ctx context.Context) error {
	if p.in.Logical == nil || syncer.RuntimeHandler(p.in.Logical) == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	list, err := p.down.dynamic.Resource(runtimeClasses).List(ctx, metav1.ListOptions{})
	switch {
	case isSilence(err):
		return fmt.Errorf("listing runtime classes: %w", err)
	case err != nil: // who may not see them is offered none
		klog.FromContext(ctx).V(2).Info("Listing runtime classes failed", "err", err)
		return nil
	}
	p.in.RuntimeClasses = syncer.ByHandler(list.Items)
	return nil
}
