package isolation

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

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
	// Incomplete is called with the number of namespaces that have pods which are not kept
	// from other logical clusters, when that may have changed; default: nobody hears of it.
	Incomplete func(namespaces int)
}

// Keeper keeps the policies.
type Keeper struct {
	Config
	mu sync.Mutex
	// made are the UIDs of the physical namespaces that have had their policies, by name.
	made map[string]types.UID
	// incomplete are those of them where that is not enough.
	incomplete map[string]bool
}

// New makes a Keeper.
func New(c Config) *Keeper {
	if c.Incomplete == nil {
		c.Incomplete = func(int) {}
	}
	return &Keeper{Config: c, made: map[string]types.UID{}, incomplete: map[string]bool{}}
}

// Reconcile brings the policies of one physical namespace up to date.
func (k *Keeper) Reconcile(ctx context.Context, name string) (controller.Result, error) {
	namespace, ok := k.View.Physical(view.Namespaces, controller.Request{Name: name})
	if !ok || namespace.GetDeletionTimestamp() != nil {
		k.note(name, "")
		k.lacks(name, false)
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

// lacks notes whether some pods of a namespace are not kept from other logical clusters.
func (k *Keeper) lacks(name string, some bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if some == k.incomplete[name] {
		return
	}
	if delete(k.incomplete, name); some {
		k.incomplete[name] = true
	}
	k.Incomplete(len(k.incomplete))
}

// keep compares the policies of a physical namespace with those that are wanted.
//
//	the policy          is there                     then
//	wanted              no                           made
//	wanted              as it is wanted              nothing
//	wanted              changed by somebody          removed, and made anew
//	wanted              made by somebody else        an error: nothing of theirs is touched
//	not wanted          yes, while the ranges of     nothing: what is not known removes nothing
//	                    pods are not known
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
	wanted, incomplete := syncer.Isolation(k.View.ControlPlane, in, permits, present)
	k.lacks(in.Physical, incomplete)
	byName := map[string]*unstructured.Unstructured{}
	for _, p := range present {
		byName[p.GetName()] = p
	}
	var errs []error
	for _, p := range wanted {
		there := byName[p.GetName()]
		delete(byName, p.GetName())
		if there != nil && syncer.IsIsolating(k.View.ControlPlane, there) && syncer.SameIsolation(p, there) {
			continue
		}
		made = true
		errs = append(errs, k.make(ctx, client, p, there))
	}
	if err := errors.Join(errs...); err != nil {
		return made, err
	}
	for _, name := range slices.Sorted(maps.Keys(byName)) { // in an order, for who repeats a run
		if p := byName[name]; syncer.IsIsolating(k.View.ControlPlane, p) {
			errs = append(errs, k.remove(ctx, client, p))
		}
	}
	return made, errors.Join(errs...)
}

func (k *Keeper) make(ctx context.Context, client dynamic.ResourceInterface, wanted, present *unstructured.Unstructured) error {
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
		return fmt.Errorf("the policy %s that keeps other logical clusters out: %w", wanted.GetName(), syncer.ErrSupplyNotOurs)
	case syncer.IsNamespaceGone(err):
		return nil
	case err != nil:
		return fmt.Errorf("making the policy that keeps other logical clusters out: %w", err)
	}
	return nil
}

func (k *Keeper) remove(ctx context.Context, client dynamic.ResourceInterface, p *unstructured.Unstructured) error {
	err := client.Delete(ctx, p.GetName(), metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(p.GetUID()))})
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return fmt.Errorf("removing a policy that is not needed any more: %w", err)
}
