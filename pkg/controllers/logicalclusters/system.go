package logicalclusters

import (
	"context"
	"errors"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	tenancyv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/tenancy/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/scope"
)

// systemNamespaces are the namespaces that every logical cluster has from its start
// beside "default", as any cluster does: to many tools, the UID of kube-system is
// the id of the cluster. What namespaces have, they get from the controller that
// gives it to all.
func systemNamespaces(name logicalcluster.Name) []string {
	all := []string{metav1.NamespaceSystem, metav1.NamespacePublic, corev1.NamespaceNodeLease}
	if name == scope.Root {
		all = append(all, fleetv1alpha1.LeaseNamespace)
	}
	return all
}

// missing are the system namespaces that a logical cluster lacks: an older release
// made none, and one of them may be deleted. exists says which there are, those
// that are being deleted included.
func missing(name logicalcluster.Name, exists func(namespace string) bool) []string {
	var out []string
	for _, namespace := range systemNamespaces(name) {
		if !exists(namespace) {
			out = append(out, namespace)
		}
	}
	return out
}

// restore makes the system namespaces that are missing. It returns when to look
// again: what was made a moment ago may not have reached the informer.
func (c *Controller) restore(ctx context.Context, lc *tenancyv1alpha1.LogicalCluster) (time.Duration, error) {
	name := logicalcluster.Name(lc.Name)
	lacks := missing(name, func(namespace string) bool {
		_, ok := c.namespaces.Get(controller.Request{Cluster: name, Name: namespace})
		return ok
	})
	if len(lacks) == 0 {
		return 0, nil
	}
	if wait := bootstrapTimeout - time.Since(lc.CreationTimestamp.Time); wait > 0 {
		return wait, nil
	}
	var failures []error
	for _, namespace := range lacks {
		failures = append(failures, c.makeNamespace(within(ctx, name), namespace))
	}
	return 0, errors.Join(failures...)
}
