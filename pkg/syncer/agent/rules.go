package agent

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
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
	for gvr, kind := range p.placed {
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
			if stays := placementv1alpha1.TargetsOf(rule.GetAnnotations())[p.target].State == placementv1alpha1.TargetSync; stays &&
				rule.GetDeletionTimestamp() == nil && !p.applies(kind, rule.GetName()) {
				return false, nil
			}
		}
	}
	p.asked.put(namespace, uid)
	return true, nil
}

// applies says that a rule has come as far as it will for now.
func (p *pass) applies(kind workload.Kind, name string) bool {
	key := objectKey{Resource: kind.GroupVersionResource(), Request: p.key.Request}
	key.Request.Name = name
	informed, found := p.copies.Get(copyRequest(key, p.target))
	c, ok := p.writtenCopies.pick(key, informed, found)
	if !ok || c.Status.State != placementv1alpha1.CopySynced && c.Status.State != placementv1alpha1.CopyFailed {
		return false // or one that is being made again
	}
	return c.Status.State == placementv1alpha1.CopyFailed || kind.Kind != "ResourceQuota" || p.counted(key)
}

// counting is how long what a quota rules waits for the physical cluster to begin to
// count. A cluster whose quota controller does not run never does.
const counting = 10 * time.Second

// counted says that the physical cluster enforces a quota: one without a status lets
// everything in.
func (p *pass) counted(key objectKey) bool {
	obj, ok := p.below[key.Resource].Get(controller.Request{Namespace: p.in.Namespace.Name, Name: key.Request.Name})
	if ok && syncer.Enforced(obj) {
		p.uncounted.drop(key)
		return true
	}
	if since := p.uncounted.get(key); !since.IsZero() {
		return time.Since(since) > counting
	}
	p.uncounted.put(key, time.Now())
	return false
}
