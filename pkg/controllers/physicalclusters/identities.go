package physicalclusters

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
)

const (
	// sameInterval is how often it is found out again whether an identity is still that of another
	// PhysicalCluster, and otherInterval how often of which one it is when it changes.
	sameInterval  = 5 * time.Second
	otherInterval = time.Second
)

// answers has when it was found out last whose an identity is. That reads all PhysicalClusters from the database. A syncer
// that reports the identity of another physical cluster, or a new one each time, would have it done with each renewal of its
// Lease, and two such could keep both workers from all others.
type answers struct {
	mu   sync.Mutex
	last map[string]answer
}

// answer is one, about an identity.
type answer struct {
	identity types.UID
	at       time.Time
}

// left is for how long the answer about a physical cluster holds.
//
//	asked before       it                        then
//	never              any                       ask
//	of this identity   is that of another one    the answer holds for sameInterval
//	any                any other                 it is not asked for otherInterval
func (a *answers) left(pc *fleetv1alpha1.PhysicalCluster, now time.Time) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	last, ok := a.last[pc.Name]
	if !ok {
		return 0
	}
	holds := otherInterval
	if last.identity == pc.Status.Identity.UID && pc.Status.Identity.SameAs != "" {
		holds = sameInterval
	}
	return max(0, last.at.Add(holds).Sub(now))
}

// note takes note that an answer is stored.
func (a *answers) note(pc *fleetv1alpha1.PhysicalCluster, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.last == nil {
		a.last = map[string]answer{}
	}
	a.last[pc.Name] = answer{pc.Status.Identity.UID, now}
}

func (a *answers) forget(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.last, name)
}

// asks says that it is not known, or may be no more, whose an identity is.
func asks(identity fleetv1alpha1.PhysicalClusterIdentity) bool {
	return identity.UID != "" && (identity.Accepted != identity.UID || identity.SameAs != "")
}

// accept finds out whether an identity that a syncer has recorded is that of
// another PhysicalCluster, and writes the answer into the status.
//
// One ConfigMap has them all: of several servers, and several PhysicalClusters that
// are registered at the same moment, one write wins, and the others read it.
func (c *Controller) accept(ctx context.Context, pc *fleetv1alpha1.PhysicalCluster) error {
	identity := &pc.Status.Identity
	if !asks(*identity) {
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
