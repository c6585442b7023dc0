package down

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/view"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// lookAtRules ends the pass unless what rules the namespace is on the target.
func (p *pass) lookAtRules(ctx context.Context) (err error) {
	if err := p.isolate(ctx); err != nil || p.in.Failure != nil {
		return err
	}
	if p.in.Ruled, err = p.ruled(ctx); err == nil && !p.in.Ruled {
		return errAgain
	}
	return err
}

// isolate has the pods that are about to be made kept from those of other logical clusters.
func (p *pass) isolate(ctx context.Context) error {
	key := view.KeyOfNamespace(p.key.Request.Cluster, p.key.Request.Namespace)
	below, _ := p.View.CopyBelow(key, controller.Request{Name: p.in.Namespace.Name})
	in := syncer.Space{Cluster: p.key.Request.Cluster, Namespace: p.key.Request.Namespace, Physical: p.in.Namespace.Name}
	err := p.Isolate(ctx, in, uidOf(below))
	switch {
	case err == nil:
		return nil
	case syncer.IsSilence(err) && !errors.Is(err, syncer.ErrSupplyNotOurs):
		return err
	}
	p.in.Failure = syncer.NotIsolated(err)
	return nil
}

// ruled reports whether the quotas and limits of the namespace are on the target,
// as far as it takes them. The first thing that they rule waits for them: a
// controller makes its pods at once.
//
// Watches of different resources do not wait for each other, so the server is asked
// once for each namespace, in a session, and again once a rule has left, see leaves.
func (p *pass) ruled(ctx context.Context) (bool, error) {
	namespace := view.KeyOfNamespace(p.key.Request.Cluster, p.key.Request.Namespace)
	logical, _ := p.View.Object(namespace)
	uid := uidOf(logical)
	asked := uid != "" && p.memory.get(namespace).asked == uid
	for _, kind := range p.View.Kinds().Kinds() { // in an order, for who repeats a run
		gvr := kind.GroupVersionResource()
		if kind.Role != workload.Ruling || !p.View.Served(gvr) {
			continue
		}
		if !asked {
			rules, err := p.Up.Dynamic.Resource(gvr).Namespace(p.key.Request.Namespace).List(ctx, metav1.ListOptions{})
			if err != nil {
				return false, fmt.Errorf("listing %s: %w", gvr.Resource, err)
			}
			for i := range rules.Items {
				// What is watched may be older, of a rule that was to leave and stays now.
				rule := &rules.Items[i]
				if _, known := p.View.Object(view.KeyOf(kind, rule)); !known || !p.holds(kind, rule) {
					return false, nil
				}
			}
		}
		for _, rule := range p.View.ObjectsIn(gvr, p.key.Request.Cluster, p.key.Request.Namespace) {
			if !p.holds(kind, rule) {
				return false, nil
			}
		}
	}
	p.memory.change(namespace, func(r *remembered) { r.asked = uid })
	return true, nil
}

// leaves says that the object of the pass is a rule that is not to stay here: should it come
// back, or another in its place, what it rules may be heard of first.
func (p *pass) leaves() bool {
	if p.kind.Role != workload.Ruling {
		return false
	}
	if p.in.Logical == nil {
		return true
	}
	entry, here := stamp.TargetsOf(p.in.Logical.GetAnnotations())[p.View.Target]
	return !here || !entry.Keeps()
}

// holds says that nothing has to wait for a rule, and remembers since when something
// waits for it to be counted.
func (p *pass) holds(kind workload.Kind, logical *unstructured.Unstructured) bool {
	key := view.KeyOf(kind, logical)
	rule := syncer.Rule{Kind: kind, Logical: logical, Uncounted: p.memory.get(key).uncounted, Now: time.Now()}
	if c, ok := p.View.Copy(key); ok {
		rule.Copy = c
	}
	if obj, ok := p.View.Physical(key.Resource, controller.Request{Namespace: p.in.Namespace.Name, Name: key.Request.Name}); ok {
		rule.Physical = obj
	}
	standing, uncounted := rule.Standing(p.View.Target)
	p.memory.change(key, func(r *remembered) { r.uncounted = uncounted })
	return standing == syncer.RuleHolds
}
