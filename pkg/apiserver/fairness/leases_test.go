package fairness

import (
	"context"
	"testing"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/util/flowcontrol"

	"github.com/atoll-dev/atoll/pkg/apiserver/auth"
	"github.com/atoll-dev/atoll/pkg/scope"
)

// asSyncer is a request of the syncer of east; it returns the FlowSchema.
func (s *served) asSyncer(ctx context.Context, cluster, verb, group, resource string, do func()) (schema string) {
	ctx = scope.WithCluster(ctx, logicalcluster.Name(cluster))
	digest := flowcontrol.RequestDigest{
		RequestInfo: &request.RequestInfo{IsResourceRequest: true, Verb: verb, APIGroup: group, APIVersion: "v1", Resource: resource, Namespace: "atoll-system"},
		User:        &user.DefaultInfo{Name: auth.SyncerUser("east"), Groups: []string{auth.SyncersGroup, user.AllAuthenticated}},
	}
	s.Handle(ctx, digest, func(fs *flowcontrolv1.FlowSchema, _ *flowcontrolv1.PriorityLevelConfiguration, _ string) {
		schema = fs.Name
	},
		one, func(bool) {}, do)
	return schema
}

func TestTheWorkOfSyncersDoesNotHoldUpTheRenewalOfTheirLeases(t *testing.T) {
	s := start(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	working, stop := make(chan struct{}, 50), make(chan struct{})
	defer close(stop)
	for range 50 { // more than are served at a time
		go s.asSyncer(ctx, "shop", "update", "placement.atoll.dev", "copies", func() {
			working <- struct{}{}
			<-stop
		})
	}
	<-working
	for _, verb := range []string{"get", "create", "update"} {
		renewed := make(chan string, 1)
		go func() {
			done := false
			schema := s.asSyncer(ctx, "root", verb, "coordination.k8s.io", "leases", func() { done = true })
			if done {
				renewed <- schema
			}
		}()
		select {
		case schema := <-renewed:
			if schema != "atoll-syncer-leases" {
				t.Errorf("%s is of %s", verb, schema)
			}
		case <-time.After(10 * time.Second):
			t.Errorf("%s of a Lease waits for other work", verb)
		}
	}
}

func TestWhatSyncersAskAboutPodsHasPlacesOfItsOwn(t *testing.T) {
	s := start(t)
	for resource, want := range map[string]string{"podreviews": "atoll-pods", "copies": "atoll-syncers"} {
		if got := s.asSyncer(t.Context(), "shop", "create", "placement.atoll.dev", resource, func() {}); got != want {
			t.Errorf("%s are of %s, want %s", resource, got, want)
		}
	}
}
