// Package fairness shares the server between logical clusters: upstream's priority
// and fairness, whose flows are logical clusters.
//
// Requests of tenants are one priority level. In it, each logical cluster is a
// flow: its requests wait in a few queues of its own (shuffle sharding) that are served
// in rotation, so that a logical cluster which sends without end waits for itself.
// Syncers are another level, the Leases of syncers one of their own, and so is what they
// ask about pods; the server itself and admins are exempt.
//
// Before that, the body of a request is read, within bounds, so that nobody holds anything by
// sending slowly. Then a request of a tenant takes one of the slots of its logical cluster: a
// few for each core. Hundreds of requests in flight on a few cores would leave no
// processor to the next. Until it has one it is at the entrance, which logical clusters pass
// one after the other; and one that is expensive needs one of the processors for such.
//
// The levels are FlowSchemas and PriorityLevelConfigurations in "root", made if
// they do not exist: an admin may change them. Such objects in other logical
// clusters have no effect.
package fairness

import (
	"context"
	"fmt"
	"strings"
	"time"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	genericapiserver "k8s.io/apiserver/pkg/server"
	apistorage "k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/util/flowcontrol"
	fq "k8s.io/apiserver/pkg/util/flowcontrol/fairqueuing"
	fcrequest "k8s.io/apiserver/pkg/util/flowcontrol/request"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"

	"github.com/atoll-dev/atoll/pkg/scope"
)

// resync of the informers: as upstream's.
const resync = 10 * time.Minute

// Apply puts priority and fairness into g, for up to concurrencyLimit requests in
// flight; client must talk to root.
func Apply(g *genericapiserver.Config, client kubernetes.Interface, concurrencyLimit int) error {
	factory := informers.NewSharedInformerFactory(client, resync)
	g.FlowControl = New(flowcontrol.New(factory, client.FlowcontrolV1(), concurrencyLimit))
	if err := g.AddPostStartHook("atoll-fairness", func(hook genericapiserver.PostStartHookContext) error {
		factory.Start(hook.Done())
		go func() {
			_ = wait.PollUntilContextCancel(hook, time.Second, true, func(ctx context.Context) (bool, error) {
				return Ensure(ctx, client) == nil, nil // root may not be there yet
			})
		}()
		return nil
	}); err != nil {
		return fmt.Errorf("adding priority and fairness: %w", err)
	}
	return nil
}

// New makes logical clusters the flows of next.
func New(next flowcontrol.Interface) flowcontrol.Interface { return byCluster{next} }

type byCluster struct{ flowcontrol.Interface }

// Handle implements flowcontrol.Interface. To a FlowSchema that distinguishes by
// namespace, the namespace of a request is its logical cluster.
func (b byCluster) Handle(ctx context.Context, digest flowcontrol.RequestDigest, note func(*flowcontrolv1.FlowSchema, *flowcontrolv1.PriorityLevelConfiguration, string),
	estimate func() fcrequest.WorkEstimate, queued fq.QueueNoteFn, execute func()) {
	if c, ok := scope.ClusterFrom(ctx); ok && digest.RequestInfo != nil {
		info := *digest.RequestInfo
		info.Namespace = c.String()
		digest.RequestInfo = &info
	}
	t, given := ctx.Value(slotKey{}).(*slot)
	if given {
		renewed, done, ok := t.arrive(ctx, digest.User)
		if !ok {
			execute() // which is Refusing
			return
		}
		defer done()
		ctx = renewed
	}
	end, ok := begin(ctx, digest.User)
	if !ok {
		execute() // which is Refusing
		return
	}
	defer end()
	if given && digest.RequestInfo != nil {
		t.watches = digest.RequestInfo.Verb == "watch"
		t.ofResource = digest.RequestInfo.IsResourceRequest
		if serve := execute; t.uri > costlyURI || strings.HasPrefix(digest.RequestInfo.Path, "/openapi/") {
			execute = func() {
				_ = Expensive(ctx) // if there is none in time, its slot bounds what it takes
				serve()
			}
		}
	}
	b.Interface.Handle(ctx, digest, note, estimate, queued, execute)
}

// NoCounts knows nothing of how many objects a resource has: it has those of all
// logical clusters, and a list of one of them would be charged for all.
type NoCounts struct{}

// Set implements upstream's StorageObjectCountTracker.
func (NoCounts) Set(string, apistorage.Stats) {}

// Get implements upstream's StorageObjectCountTracker.
func (NoCounts) Get(string) (apistorage.Stats, error) {
	return apistorage.Stats{}, fcrequest.ObjectCountNotFoundErr
}

// RunUntil implements upstream's StorageObjectCountTracker.
func (NoCounts) RunUntil(stop <-chan struct{}) { <-stop }

// Ensure makes the levels that do not exist.
func Ensure(ctx context.Context, client kubernetes.Interface) error {
	for _, l := range levels() {
		if _, err := client.FlowcontrolV1().PriorityLevelConfigurations().Create(ctx, l.priority, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("making priority level %s: %w", l.priority.Name, err)
		}
		if _, err := client.FlowcontrolV1().FlowSchemas().Create(ctx, l.schema, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("making flow schema %s: %w", l.schema.Name, err)
		}
	}
	return nil
}
