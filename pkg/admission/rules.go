package admission

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/kcp-dev/logicalcluster/v3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"

	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// rules gives the quotas and limits of a namespace their targets: they go down before the
// first thing that they rule. That is done twice. Who decides stamps those that are there
// already. One that was admitted before the decision may be stored after that, without
// targets, and is stamped before the first thing that it rules is recorded on a target:
// what is recorded was stored, so every rule from before it is seen then.
//
// The placement controller stamps later rules.
type rules struct {
	lookup *lookup
	// settled has the UIDs of namespaces in which that was done before a first record.
	// It saves reads: later rules have not been there before all that they rule.
	settled *lru.Cache
}

// maxSettled bounds the namespaces that are remembered. One that is forgotten is read once
// more.
const maxSettled = 10000

func newRules(l *lookup) *rules { return &rules{lookup: l, settled: lru.New(maxSettled)} }

// ahead stamps what rules an object that a syncer records.
func (s *rules) ahead(ctx context.Context, r *request, kind workload.Kind) error {
	if !workload.Ruled(kind) || r.IsDryRun() {
		return nil
	}
	if namespace, ok := s.lookup.namespaces.Get(controller.Request{Cluster: r.cluster, Name: r.GetNamespace()}); ok {
		if _, ok := s.settled.Get(namespace.UID); ok {
			return nil
		}
	}
	namespace, err := r.getLiveNamespace(ctx)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading namespace %s: %w", r.GetNamespace(), err)
	}
	err = s.stamp(ctx, r.cluster, r.kinds, namespace, func() (stamp.Unit, error) { return s.lookup.liveUnit(ctx, r.cluster, namespace) })
	if err != nil {
		return err
	}
	s.settled.Add(namespace.UID, nil)
	return nil
}

// stamp gives all rules of a namespace the targets of a unit, which is asked for if there
// are any.
func (s *rules) stamp(ctx context.Context, cluster logicalcluster.Name, kinds workload.Catalog, namespace *corev1.Namespace, of func() (stamp.Unit, error)) error {
	if s.lookup.metadata == nil {
		return errors.New("there is no client")
	}
	of = sync.OnceValues(of)
	ctx = at(ctx, cluster)
	for _, kind := range kinds.Kinds() {
		if kind.Role != workload.Ruling {
			continue
		}
		client := s.lookup.metadata.Resource(kind.GroupVersionResource()).Namespace(namespace.Name)
		list, err := client.List(ctx, metav1.ListOptions{})
		if err != nil {
			return fmt.Errorf("listing %s: %w", kind.Resource, err)
		}
		for i := range list.Items {
			rule := &list.Items[i]
			unit, err := of()
			if err != nil {
				return err
			}
			patch := stamp.Restamp(rule, func(o metav1.Object) {
				stamp.Set(o, stamp.Targets(kind, cluster, o, stamp.Source{Unit: unit}))
			})
			if patch != nil {
				_, err := client.Patch(ctx, rule.Name, types.MergePatchType, patch, metav1.PatchOptions{})
				if err := stamped(rule, err); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// liveUnit is what all units of a namespace want together, as the database has them.
func (l *lookup) liveUnit(ctx context.Context, cluster logicalcluster.Name, namespace *corev1.Namespace) (stamp.Unit, error) {
	list, err := l.client.PlacementV1alpha1().Placements(namespace.Name).List(at(ctx, cluster), metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading the placements: %w", err)
	}
	var all []stamp.Unit
	for i := range list.Items {
		if p := &list.Items[i]; stamp.BelongsTo(p, namespace.UID) {
			all = append(all, stamp.UnitOf(p))
		}
	}
	return stamp.Merge(all...), nil
}

// stamped passes over an object that is gone or going.
func stamped(obj metav1.Object, err error) error {
	if err == nil || apierrors.IsNotFound(err) || obj.GetDeletionTimestamp() != nil {
		return nil
	}
	return fmt.Errorf("stamping %s: %w", obj.GetName(), err)
}
