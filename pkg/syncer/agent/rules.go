package agent

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// ruled reports whether the quotas and limits of the namespace are on the target,
// as far as it takes them. The first thing that they rule waits for them: a
// controller makes its pods at once.
//
// Watches of different resources do not wait for each other, so the server is asked
// once for each namespace, in a session.
func (p *pass) ruled(ctx context.Context) (bool, error) {
	namespace := keyOfNamespace(p.key.Request.Cluster, p.key.Request.Namespace)
	var uid types.UID
	if obj, ok := p.logical[namespaces].Get(namespace.Request); ok {
		uid = obj.GetUID()
	}
	asked := uid != "" && p.asked.get(namespace) == uid
	for _, kind := range p.kinds.Kinds() { // in an order, for who repeats a run
		gvr := kind.GroupVersionResource()
		if kind.Role != workload.Ruling || p.below[gvr] == nil {
			continue
		}
		if !asked {
			rules, err := p.up.dynamic.Resource(gvr).Namespace(p.key.Request.Namespace).List(ctx, metav1.ListOptions{})
			if err != nil {
				return false, fmt.Errorf("listing %s: %w", gvr.Resource, err)
			}
			for i := range rules.Items {
				if _, known := p.logical[gvr].Get(keyOf(kind, &rules.Items[i]).Request); !known {
					return false, nil
				}
			}
		}
		for _, rule := range p.logical[gvr].ListNamespace(p.key.Request.Cluster, p.key.Request.Namespace) {
			if !p.holds(kind, rule) {
				return false, nil
			}
		}
	}
	p.asked.put(namespace, uid)
	return true, nil
}

// holds says that nothing has to wait for a rule, and remembers since when something
// waits for it to be counted.
func (p *pass) holds(kind workload.Kind, rule *unstructured.Unstructured) bool {
	key := keyOf(kind, rule)
	r := syncer.Rule{Kind: kind, Logical: rule}
	informed, found := p.copies.Get(copyRequest(key, p.target))
	if c, ok := p.writtenCopies.pick(key, informed, found); ok {
		r.Copy = c
	}
	if obj, ok := p.below[key.Resource].Get(controller.Request{Namespace: p.in.Namespace.Name, Name: key.Request.Name}); ok {
		r.Physical = obj
	}
	if r.Standing(p.target) == syncer.RuleHolds {
		p.uncounted.drop(key)
		return true
	}
	if since := p.uncounted.get(key); !since.IsZero() {
		r.Waited = time.Since(since)
	}
	standing := r.Standing(p.target)
	if standing == syncer.RuleCounts && r.Waited == 0 {
		p.uncounted.put(key, time.Now())
	}
	return standing == syncer.RuleHolds
}
