package isolation

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/boundary"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/connection"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/view"
)

var policies = networkingv1.SchemeGroupVersion.WithResource("networkpolicies")

// Config is what a Keeper works with.
type Config struct {
	View *view.View
	Down connection.Physical
	// Permits is what the physical cluster permits now.
	Permits func() boundary.Permits
	// Lacking is called when what it says may have changed; default: nobody hears of it.
	Lacking func(syncer.Lacking)
	// Enqueue has a physical namespace looked at.
	Enqueue func(namespace string)
	// Now is the time; default: time.Now.
	Now func() time.Time
}

// Keeper keeps the policies.
type Keeper struct {
	Config
	mu sync.Mutex
	// made are the UIDs of the physical namespaces that have had their policies, by name.
	made map[string]types.UID
	// lacking are those of them where that is not enough.
	lacking map[string]lack
	// next is when the namespaces of a logical cluster may be looked at again for who is elsewhere.
	next map[logicalcluster.Name]time.Time
}

// lack is what a namespace lacks: pods of others get in, or some of its own do not.
type lack struct{ open, closed bool }

// New makes a Keeper.
func New(c Config) *Keeper {
	if c.Lacking == nil {
		c.Lacking = func(syncer.Lacking) {}
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Keeper{Config: c, made: map[string]types.UID{}, lacking: map[string]lack{}, next: map[logicalcluster.Name]time.Time{}}
}

// Elsewhere has the namespaces of a logical cluster looked at: its pods on other physical clusters
// are others. Not more often than syncer.ElsewhereInterval says.
func (k *Keeper) Elsewhere(_ context.Context, r controller.Request) (controller.Result, error) {
	namespaces, imports := k.View.NamespacesOf(r.Cluster), k.View.PodImports(r.Cluster)
	addresses := 0
	for _, imp := range imports {
		for _, pods := range imp.Spec.Pods {
			addresses += len(pods.Addresses)
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.Now()
	if left := k.next[r.Cluster].Sub(now); left > 0 {
		return controller.Result{RequeueAfter: left}, nil
	}
	if k.next[r.Cluster] = now.Add(syncer.ElsewhereInterval(len(namespaces), addresses)); len(imports) == 0 {
		delete(k.next, r.Cluster)
	}
	for _, name := range namespaces {
		k.Enqueue(name)
	}
	return controller.Result{}, nil
}

// Reconcile brings the policies of one physical namespace up to date.
func (k *Keeper) Reconcile(ctx context.Context, name string) (controller.Result, error) {
	namespace, ok := k.View.Physical(view.Namespaces, controller.Request{Name: name})
	if !ok || namespace.GetDeletionTimestamp() != nil {
		k.note(name, "")
		k.lacks(name, lack{})
		return controller.Result{}, nil
	}
	mark, ok := syncer.MarkOf(view.Namespaces.GroupResource(), namespace)
	if !ok {
		return controller.Result{}, nil
	}
	in := syncer.Space{Cluster: mark.Cluster, Namespace: mark.Namespace, Physical: name}
	made, err := k.keep(ctx, in)
	if err != nil {
		return controller.Result{}, err
	}
	k.note(name, namespace.GetUID())
	if made { // a watch that lacks it does not say when it goes, either
		return controller.Result{RequeueAfter: syncer.UnwatchedInterval}, nil
	}
	return controller.Result{}, nil
}

// Prepare makes the policies of a physical namespace with a UID before pods are in it, unless
// they have been made.
func (k *Keeper) Prepare(ctx context.Context, in syncer.Space, uid types.UID) error {
	k.mu.Lock()
	made := uid != "" && k.made[in.Physical] == uid
	k.mu.Unlock()
	if made {
		return nil
	}
	if _, err := k.keep(ctx, in); err != nil {
		return err
	}
	k.note(in.Physical, uid)
	return nil
}

func (k *Keeper) note(name string, uid types.UID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if uid == "" {
		delete(k.made, name)
		return
	}
	k.made[name] = uid
}

// lacks notes what a namespace lacks.
func (k *Keeper) lacks(name string, l lack) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if l == k.lacking[name] {
		return
	}
	if k.lacking[name] = l; l == (lack{}) {
		delete(k.lacking, name)
	}
	var sum syncer.Lacking
	for _, l := range k.lacking {
		if l.open {
			sum.Open++
		}
		if l.closed {
			sum.Closed++
		}
	}
	k.Lacking(sum)
}

// keep compares the policies of a physical namespace with those that are wanted.
//
//	the policy          is there                     then
//	wanted              no                           made
//	wanted              as it is wanted              nothing
//	wanted, isolating   changed by somebody          removed, and made anew
//	wanted, elsewhere   with other addresses         written
//	wanted              made by somebody else        an error: nothing of theirs is touched
//	not wanted          yes, while the ranges of     nothing: what is not known removes nothing
//	                    pods, or who is elsewhere,
//	                    are not known
//	not wanted          yes                          removed, after those that are wanted are there
//
// made says that one is wanted that the watch does not show as it is wanted.
func (k *Keeper) keep(ctx context.Context, in syncer.Space) (made bool, err error) {
	permits := k.Permits()
	if !k.View.Served(policies) || permits.Network.Isolation != fleetv1alpha1.NetworkIsolationNone && !permits.Network.Isolates() {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, connection.RequestTimeout)
	defer cancel()
	client := k.Down.Dynamic.Resource(policies).Namespace(in.Physical)
	present := k.View.PhysicalIn(policies, in.Physical)
	wanted, open := syncer.Isolation(k.View.ControlPlane, in, permits, present)
	l := lack{open: open}
	known := k.View.PodsKnown()
	if known {
		at := syncer.PolicyPlace{ControlPlane: k.View.ControlPlane, Target: k.View.Target, Space: in, Permits: permits}
		users := slices.DeleteFunc(slices.Clone(present), func(p *unstructured.Unstructured) bool { return syncer.IsSupply(k.View.ControlPlane, p) })
		elsewhere, incomplete := syncer.Elsewhere(at, append(users, wanted...), k.View.PodImports(in.Cluster))
		wanted, l.closed = append(wanted, elsewhere...), incomplete
	}
	k.lacks(in.Physical, l)
	ours := func(p *unstructured.Unstructured) bool {
		return syncer.IsIsolating(k.View.ControlPlane, p) || known && syncer.IsElsewhere(k.View.ControlPlane, p)
	}
	byName := map[string]*unstructured.Unstructured{}
	for _, p := range present {
		byName[p.GetName()] = p
	}
	var errs []error
	for _, p := range wanted {
		there := byName[p.GetName()]
		delete(byName, p.GetName())
		if there != nil && ours(there) && syncer.SamePolicy(p, there) {
			continue
		}
		made = true
		errs = append(errs, k.write(ctx, client, p, there))
	}
	if err := errors.Join(errs...); err != nil {
		return made, err
	}
	for _, name := range slices.Sorted(maps.Keys(byName)) { // in an order, for who repeats a run
		if p := byName[name]; ours(p) {
			errs = append(errs, k.remove(ctx, client, p))
		}
	}
	return made, errors.Join(errs...)
}

// write makes a policy, or what is present as it is wanted. The one of who is elsewhere is patched:
// while it is away, connections are refused.
func (k *Keeper) write(ctx context.Context, client dynamic.ResourceInterface, wanted, present *unstructured.Unstructured) error {
	if present != nil && syncer.IsElsewhere(k.View.ControlPlane, present) && syncer.IsElsewhere(k.View.ControlPlane, wanted) {
		_, err := client.Patch(ctx, wanted.GetName(), types.JSONPatchType, syncer.RewritePolicy(wanted, present), metav1.PatchOptions{FieldManager: syncer.FieldManager})
		if err != nil && !syncer.IsGone(err, policies.GroupResource(), wanted.GetName()) { // then the watch is about to say so
			return fmt.Errorf("writing the policy that admits pods on other physical clusters: %w", err)
		}
		return nil
	}
	if present != nil && syncer.IsIsolating(k.View.ControlPlane, present) {
		if err := k.remove(ctx, client, present); err != nil {
			return err
		}
	}
	_, err := client.Create(ctx, wanted, metav1.CreateOptions{FieldManager: syncer.FieldManager})
	switch {
	case apierrors.IsAlreadyExists(err) && present == nil: // the watch is about to say whose it is
		return nil
	case apierrors.IsAlreadyExists(err):
		return fmt.Errorf("the policy %s: %w", wanted.GetName(), syncer.ErrSupplyNotOurs)
	case syncer.IsNamespaceGone(err):
		return nil
	case err != nil:
		return fmt.Errorf("making the policy %s: %w", wanted.GetName(), err)
	}
	return nil
}

func (k *Keeper) remove(ctx context.Context, client dynamic.ResourceInterface, p *unstructured.Unstructured) error {
	err := client.Delete(ctx, p.GetName(), metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(p.GetUID()))})
	if err == nil || syncer.IsOutdated(err, policies.GroupResource(), p.GetName()) {
		return nil
	}
	return fmt.Errorf("removing a policy that is not needed any more: %w", err)
}
