package imports

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/atoll-dev/atoll/pkg/boundary"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/connection"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/view"
)

const (
	// sweepInterval is how often everything is looked at, whatever the watches said.
	sweepInterval = 30 * time.Second
	// retiredTime is how long a Service of its own stays once a copy receives: who resolved the
	// name before holds its address.
	retiredTime = time.Minute
	// absentTime is how long an import is out of view before what was made of it goes: a server
	// that went back in time makes it again.
	absentTime = 10 * time.Second
)

// Config is what a Keeper works with.
type Config struct {
	View *view.View
	Down connection.Physical
	// Names is the namespace of atoll-dns now; empty if nobody offers names.
	Names func() string
	// Permits is what the physical cluster permits now.
	Permits func() boundary.Permits
	// Now is the time; default: time.Now.
	Now func() time.Time
}

// Keeper keeps them.
type Keeper struct {
	Config
	mu sync.Mutex
	// unneeded is since when an import is out of view, or its Service of its own is retired.
	unneeded map[controller.Request]time.Time
}

// New makes a Keeper.
func New(c Config) *Keeper {
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Keeper{Config: c, unneeded: map[controller.Request]time.Time{}}
}

// Sweep enqueues all imports, and all of which something is below, until ctx is done.
func Sweep(ctx context.Context, v *view.View, enqueue func(controller.Request)) {
	ticker := time.NewTicker(sweepInterval)
	defer ticker.Stop()
	for {
		for _, r := range v.Imports() {
			enqueue(r)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// Reconcile brings what is made of one import up to date.
//
//	the import    below                      then
//	not known     any                        nothing
//	in view       not as it is wanted        made, or written
//	in view       a Service of its own that  retired, and removed a minute later
//	              is not needed any more
//	in view       else not wanted            removed
//	not in view   something                  removed ten seconds later
func (k *Keeper) Reconcile(ctx context.Context, r controller.Request) (controller.Result, error) {
	if !k.View.ImportsKnown() { // it is enqueued when it is, and by each sweep
		return controller.Result{}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, connection.RequestTimeout)
	defer cancel()
	present := k.View.ImportedBelow(r)
	imp, ok := k.View.Import(r)
	if !ok || imp.DeletionTimestamp != nil {
		if len(present) == 0 {
			k.needed(r)
			return controller.Result{}, nil
		}
		if left := absentTime - k.since(r); left > 0 {
			return controller.Result{RequeueAfter: left}, nil
		}
		if err := k.remove(ctx, nil, present); err != nil {
			return controller.Result{}, err
		}
		k.needed(r) // nothing is remembered of what is gone
		return controller.Result{}, nil
	}
	at := syncer.ImportPlace{ControlPlane: k.View.ControlPlane, Target: k.View.Target, Names: k.Names(), Physical: k.physical(r), Permits: k.Permits()}
	wanted := syncer.ImportedOf(imp, at, false)
	var result controller.Result
	if syncer.ImportedService(wanted) != nil || !slices.ContainsFunc(present, syncer.IsImportedService) {
		k.needed(r)
	} else if left := retiredTime - k.since(r); left > 0 {
		wanted, result.RequeueAfter = syncer.ImportedOf(imp, at, true), left
	}
	for _, obj := range wanted { // endpoints come first: a Service without any refuses connections
		if err := k.write(ctx, obj, find(present, obj)); err != nil && !syncer.IsNamespaceGone(err) {
			return controller.Result{}, fmt.Errorf("making what leads to a Service on another physical cluster: %w", err)
		}
	}
	return result, k.remove(ctx, wanted, present)
}

// physical is the namespace in which the copy of the Service is; empty if there is none. A copy of a
// physical namespace that somebody made there has the same marks, and is not meant.
func (k *Keeper) physical(r controller.Request) string {
	for _, obj := range k.View.Marked(view.ObjectKey{Resource: view.Services, Request: r}) {
		if obj.GetDeletionTimestamp() == nil && k.View.NamespaceOf(obj.GetNamespace()) != nil {
			return obj.GetNamespace()
		}
	}
	return ""
}

// since is for how long an import has not been needed, from the first call on.
func (k *Keeper) since(r controller.Request) time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, ok := k.unneeded[r]; !ok {
		k.unneeded[r] = k.Now()
	}
	return k.Now().Sub(k.unneeded[r])
}

func (k *Keeper) needed(r controller.Request) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.unneeded, r)
}

func find(objects []*unstructured.Unstructured, wanted *unstructured.Unstructured) *unstructured.Unstructured {
	for _, obj := range objects {
		if obj.GetKind() == wanted.GetKind() && obj.GetNamespace() == wanted.GetNamespace() && obj.GetName() == wanted.GetName() {
			return obj
		}
	}
	return nil
}

func (k *Keeper) client(obj *unstructured.Unstructured) dynamic.ResourceInterface {
	return k.Down.Dynamic.Resource(resourceOf(obj)).Namespace(obj.GetNamespace())
}

func resourceOf(obj *unstructured.Unstructured) schema.GroupVersionResource {
	if syncer.IsImportedService(obj) {
		return view.Services
	}
	return view.EndpointSlices
}

// write makes an object, or changes what is there, as far as that is not as it is wanted.
func (k *Keeper) write(ctx context.Context, wanted, there *unstructured.Unstructured) error {
	if there != nil && syncer.SameImported(wanted, there) {
		return nil
	}
	client := k.client(wanted)
	if there == nil {
		_, err := client.Create(ctx, wanted, metav1.CreateOptions{FieldManager: syncer.FieldManager})
		if !apierrors.IsAlreadyExists(err) {
			return err
		}
		if there, err = client.Get(ctx, wanted.GetName(), metav1.GetOptions{}); err != nil {
			return err
		}
		if !syncer.IsImported(k.View.ControlPlane, there) {
			return fmt.Errorf("%s/%s: %w", wanted.GetNamespace(), wanted.GetName(), syncer.ErrSupplyNotOurs)
		}
	}
	patch, anew := syncer.Reimport(wanted, there)
	if !anew {
		_, err := client.Patch(ctx, wanted.GetName(), types.MergePatchType, patch, metav1.PatchOptions{FieldManager: syncer.FieldManager})
		return err
	}
	if err := client.Delete(ctx, there.GetName(), byUID(there)); err != nil {
		return err
	}
	_, err := client.Create(ctx, wanted, metav1.CreateOptions{FieldManager: syncer.FieldManager})
	return err
}

// remove deletes, by UID, what is below and not wanted.
func (k *Keeper) remove(ctx context.Context, wanted, present []*unstructured.Unstructured) error {
	var errs []error
	for _, obj := range present {
		if find(wanted, obj) != nil {
			continue
		}
		err := k.client(obj).Delete(ctx, obj.GetName(), byUID(obj))
		if err != nil && !syncer.IsOutdated(err, resourceOf(obj).GroupResource(), obj.GetName()) {
			errs = append(errs, fmt.Errorf("removing what led to a Service on another physical cluster: %w", err))
		}
	}
	return errors.Join(errs...)
}

func byUID(obj *unstructured.Unstructured) metav1.DeleteOptions {
	return metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(obj.GetUID()))}
}
