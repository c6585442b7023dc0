package server

import (
	"context"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/scope"
)

// reportTimeout bounds a write to a physical cluster that controllers write, too.
const reportTimeout = 30 * time.Second

// InRoot is a context about root.
func InRoot(t testing.TB) context.Context { return scope.WithCluster(t.Context(), scope.Root) }

// Register makes a physical cluster that exists as an object only, and reports that it
// is ready and empty. It stays so while it beats.
func (s *Server) Register(t testing.TB, name string, labels map[string]string, taints ...corev1.Taint) {
	t.Helper()
	pc := &fleetv1alpha1.PhysicalCluster{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
	pc.Spec.Taints = taints
	if _, err := s.Atoll.FleetV1alpha1().PhysicalClusters().Create(InRoot(t), pc, metav1.CreateOptions{}); err != nil {
		t.Fatalf("registering %s: %v", name, err)
	}
	s.Report(t, name, Ready)
}

// Ready is the status of one that is empty.
func Ready(s *fleetv1alpha1.PhysicalClusterStatus) {
	s.Conditions = []metav1.Condition{{Type: fleetv1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: fleetv1alpha1.ReasonHeartbeat, LastTransitionTime: metav1.Now()}}
	s.Allocatable = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100"), corev1.ResourceMemory: resource.MustParse("100Gi")}
}

// Report changes the status of a physical cluster.
func (s *Server) Report(t testing.TB, name string, change func(*fleetv1alpha1.PhysicalClusterStatus)) {
	t.Helper()
	client := s.Atoll.FleetV1alpha1().PhysicalClusters()
	Eventually(t, reportTimeout, "reporting the status of "+name, func() error {
		pc, err := client.Get(InRoot(t), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		change(&pc.Status)
		_, err = client.UpdateStatus(InRoot(t), pc, metav1.UpdateOptions{})
		return err
	})
}

// Renew renews the Lease of a physical cluster.
func (s *Server) Renew(ctx context.Context, name string) error {
	leases := s.Kube.CoordinationV1().Leases(fleetv1alpha1.LeaseNamespace)
	now := metav1.NowMicro()
	lease, err := leases.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = leases.Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: coordinationv1.LeaseSpec{RenewTime: &now}}, metav1.CreateOptions{})
		return err
	}
	if err != nil {
		return err
	}
	lease.Spec.RenewTime = &now
	_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
	return err
}

// Beat renews Leases until the test ends.
func (s *Server) Beat(t testing.TB, names ...string) {
	t.Helper()
	for _, name := range names {
		Eventually(t, reportTimeout, "the first heartbeat of "+name, func() error { return s.Renew(InRoot(t), name) })
	}
	ctx, cancel := context.WithCancel(InRoot(t))
	var running sync.WaitGroup
	running.Go(func() {
		ticker := time.NewTicker(5 * time.Second)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				for _, name := range names {
					_ = s.Renew(ctx, name)
				}
			}
		}
	})
	t.Cleanup(func() { cancel(); running.Wait() })
}
