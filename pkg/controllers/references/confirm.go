package references

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/atoll-dev/atoll/pkg/workload"
)

// live asks the server, before a copy is removed because nobody refers to the object
// any more, who does: a referrer that the informers lack may just have been made, and
// absence is no instruction to remove anything.
func (c *Controller) live(ctx context.Context, k key) ([]*holder, error) {
	wanted, err := c.liveReferences(ctx, k)
	if err != nil {
		return nil, err
	}
	var all []*holder
	for _, kind := range workload.In(c.Kinds, k.Cluster).Kinds() {
		if !kind.Refers() {
			continue
		}
		list, err := c.Dynamic.Resource(kind.GroupVersionResource()).Namespace(k.Namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, fmt.Errorf("reading what may refer to it: %w", err)
		}
		for i := range list.Items {
			if h := hold(kind, &list.Items[i]); h != nil && slices.ContainsFunc(h.references, wanted.Has) {
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
