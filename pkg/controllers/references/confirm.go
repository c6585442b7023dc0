package references

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// present are referrers, and those that ask for more than current as they are now: nothing goes where it is not
// needed by what is there, and least of all a Secret. Watches of different resources do not wait for each other: a
// namespace may have been deleted and made again while what was in it is still known. And a server that stood still
// knows where things were before that; others have moved them since.
func (c *Controller) present(ctx context.Context, k key, current placementv1alpha1.Targets, referrers []*holder) ([]*holder, error) {
	known := maps.Clone(current)
	if known == nil {
		known = placementv1alpha1.Targets{}
	}
	var there []*holder
	for _, h := range referrers {
		if stamp.Adds(known, h.targets) {
			var err error
			if h, err = c.read(ctx, k, h); err != nil {
				return nil, err
			}
			if h == nil {
				continue
			}
			maps.Copy(known, h.targets) // one is enough
		}
		there = append(there, h)
	}
	return there, nil
}

// read is a referrer of k as it is stored; nil if it is gone, or another one, or refers to k no more.
func (c *Controller) read(ctx context.Context, k key, known *holder) (*holder, error) {
	kind, ok := workload.In(c.Kinds, k.Cluster).ByResource(known.resource.GroupResource())
	if !ok {
		return nil, nil
	}
	obj, err := c.Dynamic.Resource(known.resource).Namespace(known.Namespace).Get(ctx, known.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading what refers to it: %w", err)
	}
	h := hold(kind, obj)
	if h == nil || h.UID != known.UID || !slices.ContainsFunc(c.references(k), func(r workload.Reference) bool { return slices.Contains(h.references, r) }) {
		return nil, nil
	}
	return h, nil
}

// live asks the server, before a copy is removed because nobody refers to the object
// any more, who does: a referrer that the informers lack may just have been made, and
// absence is no instruction to remove anything.
func (c *Controller) live(ctx context.Context, k key) ([]*holder, error) {
	stored, err := c.stored.get(ctx, namespace{k.Cluster, k.Namespace})
	if err != nil {
		return nil, err
	}
	wanted, err := c.liveReferences(ctx, k)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(stored), func(h *holder) bool { return !slices.ContainsFunc(h.references, wanted.Has) }), nil
}

// readAll reads what refers to others in a namespace.
func (c *Controller) readAll(ctx context.Context, of namespace) ([]*holder, error) {
	ctx = scope.WithCluster(ctx, of.cluster)
	var all []*holder
	for _, kind := range workload.In(c.Kinds, of.cluster).Kinds() {
		if !kind.Refers() {
			continue
		}
		list, err := c.Dynamic.Resource(kind.GroupVersionResource()).Namespace(of.name).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, fmt.Errorf("reading what may refer to it: %w", err)
		}
		for i := range list.Items {
			if h := hold(kind, &list.Items[i]); h != nil {
				all = append(all, h)
			}
		}
	}
	return all, nil
}

// liveReferences are the references that lead to k: its own, and for a Secret those
// to service accounts that name it.
func (c *Controller) liveReferences(ctx context.Context, k key) (sets.Set[workload.Reference], error) {
	wanted := sets.New(workload.Reference{Resource: k.resource, Name: k.Name})
	if k.resource != workload.Secrets || c.ServiceAccounts == nil {
		return wanted, nil
	}
	list, err := c.Dynamic.Resource(corev1.SchemeGroupVersion.WithResource("serviceaccounts")).Namespace(k.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading the service accounts: %w", err)
	}
	for i := range list.Items {
		account := &corev1.ServiceAccount{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(list.Items[i].Object, account); err != nil {
			return nil, fmt.Errorf("reading service account %s: %w", list.Items[i].GetName(), err)
		}
		if slices.Contains(secretsOf(account), k.Name) {
			wanted.Insert(workload.Reference{Resource: workload.ServiceAccounts, Name: account.Name})
		}
	}
	return wanted, nil
}
