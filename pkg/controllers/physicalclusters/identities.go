package physicalclusters

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
)

// accept finds out whether an identity that a syncer has recorded is that of
// another PhysicalCluster, and writes the answer into the status.
//
// One ConfigMap has them all: of several servers, and several PhysicalClusters that
// are registered at the same moment, one write wins, and the others read it.
func (c *Controller) accept(ctx context.Context, pc *fleetv1alpha1.PhysicalCluster) error {
	identity := &pc.Status.Identity
	if identity.UID == "" || identity.Accepted == identity.UID && identity.SameAs == "" {
		return nil
	}
	client := c.Kube.CoreV1().ConfigMaps(fleetv1alpha1.LeaseNamespace)
	claimed, err := client.Get(ctx, fleetv1alpha1.IdentitiesName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		claimed, err = client.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fleetv1alpha1.IdentitiesName}}, metav1.CreateOptions{})
	}
	if err != nil {
		return fmt.Errorf("reading whose the identities are: %w", err)
	}
	// Read after the claims: whoever has one had recorded its identity before.
	clusters, err := c.Client.FleetV1alpha1().PhysicalClusters().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing PhysicalClusters: %w", err)
	}
	data, holder := claim(claimed.Data, clusters.Items, pc)
	if !maps.Equal(data, claimed.Data) {
		claimed = claimed.DeepCopy()
		claimed.Data = data
		if _, err := client.Update(ctx, claimed, metav1.UpdateOptions{}); err != nil {
			return fmt.Errorf("writing whose the identities are: %w", err)
		}
	}
	identity.Accepted, identity.SameAs = identity.UID, ""
	if holder != pc.Name {
		identity.Accepted, identity.SameAs = "", holder
	}
	return nil
}

// claim gives pc its recorded identity, unless that is another's, and names whose it
// is. A claim ends when its PhysicalCluster is gone, or has become another cluster.
func claim(claims map[string]string, clusters []fleetv1alpha1.PhysicalCluster, pc *fleetv1alpha1.PhysicalCluster) (after map[string]string, holder string) {
	after = map[string]string{}
	for i := range clusters {
		identity := clusters[i].Status.Identity.UID
		if identity != "" && claims[string(identity)] == string(clusters[i].UID) {
			after[string(identity)] = string(clusters[i].UID)
		}
	}
	identity := string(pc.Status.Identity.UID)
	if after[identity] == "" {
		after[identity] = string(pc.UID)
	}
	if after[identity] == string(pc.UID) {
		return after, pc.Name
	}
	return after, nameOf(clusters, types.UID(after[identity]))
}

func nameOf(clusters []fleetv1alpha1.PhysicalCluster, uid types.UID) string {
	for i := range clusters {
		if clusters[i].UID == uid {
			return clusters[i].Name
		}
	}
	return ""
}
