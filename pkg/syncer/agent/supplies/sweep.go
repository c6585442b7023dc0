package supplies

import (
	"context"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"

	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/connection"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/view"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// sweepInterval is how often it is looked what has to be renewed, or is not needed any
// more. The shortest token is good for ten minutes, and renewed after five.
const sweepInterval = time.Minute

// Run renews and removes until ctx is done.
func (k *Keeper) Run(ctx context.Context) {
	ticker := time.NewTicker(sweepInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			k.Sweep(ctx, time.Now())
			if err := k.SweepNames(ctx, time.Now()); err != nil {
				klog.FromContext(ctx).Error(err, "Keeping the ports of atoll-dns failed, will try again")
			}
		}
	}
}

// ShutDown implements the queue of a session; Run ends with its context.
func (k *Keeper) ShutDown() {}

// Sweep looks at all supplies once.
//
//	the supply      mounted below, or wanted above  then
//	of any kind     no                              removed by its UID, if it is older than the interval
//	Good            yes                             nothing
//	Due, Expired    yes                             renewed; if the control plane refuses, it stays: its
//	                                                account is gone, or the template that named it
//	another CA      yes                             written anew
//	lost            by a copy that is there         written anew: its next pods do not start else
func (k *Keeper) Sweep(ctx context.Context, now time.Time) {
	wanted, lost := k.wanted()
	for _, gvr := range []schema.GroupVersionResource{secrets, configMaps} {
		for obj := range k.View.Supplies(gvr) {
			if ctx.Err() != nil {
				return
			}
			p := place{gvr, obj.GetNamespace(), obj.GetName()}
			var err error
			switch {
			case !wanted[p] && !k.mounted(p):
				err = k.remove(ctx, gvr, obj, now)
			default:
				err = k.renew(ctx, obj, now)
			}
			if err != nil {
				klog.FromContext(ctx).Error(err, "Keeping what pods mount failed, will try again", "namespace", obj.GetNamespace(), "name", obj.GetName())
			}
		}
	}
	for in, supplies := range lost {
		if ctx.Err() != nil {
			return
		}
		for _, s := range supplies {
			if err := k.write(ctx, in, k.Missing(in.Physical, s)); err != nil {
				klog.FromContext(ctx).Error(err, "Making again what pods mount failed, will try again", "namespace", in.Physical)
			}
		}
	}
}

// wanted are the places of all that templates above need; lost is what is not there of it,
// and mounted by their copies.
func (k *Keeper) wanted() (wanted map[place]bool, lost map[syncer.Space][]syncer.Supplies) {
	wanted, lost = map[place]bool{}, map[syncer.Space][]syncer.Supplies{}
	server := k.Server()
	for _, kind := range k.View.Kinds().Kinds() {
		if kind.PodTemplate == nil {
			continue
		}
		for obj := range k.View.Objects(kind.GroupVersionResource()) {
			if !syncer.Keeps(k.View.Target, obj) {
				continue
			}
			key := view.KeyOf(kind, obj)
			namespace, ok := k.View.Namespace(key.Request.Cluster, key.Request.Namespace)
			if !ok {
				continue
			}
			account := k.View.Account(key.Request, syncer.AccountUsed(kind, obj))
			needs := syncer.Needs(kind, obj, account, server)
			names, configMap := needs.Names()
			in := syncer.Space{Cluster: key.Request.Cluster, Namespace: key.Request.Namespace, Physical: syncer.PhysicalName(namespace)}
			for _, name := range names {
				wanted[place{secrets, in.Physical, name}] = true
			}
			wanted[place{configMaps, in.Physical, configMap}] = true
			if missing := k.lacking(kind, in, obj.GetName(), needs); !missing.Empty() {
				lost[in] = append(lost[in], missing)
			}
		}
	}
	return wanted, lost
}

// lacking is what a copy mounts and what is not there. What is to be made for a copy that is
// not there, or changes, is written before it.
func (k *Keeper) lacking(kind workload.Kind, in syncer.Space, name string, needs syncer.Supplies) (missing syncer.Supplies) {
	if missing = k.Missing(in.Physical, needs); missing.Empty() {
		return missing
	}
	mounted := map[string]bool{}
	if physical, ok := k.View.Physical(kind.GroupVersionResource(), controller.Request{Namespace: in.Physical, Name: name}); ok {
		for _, template := range workload.PodTemplates(kind, physical.Object) {
			for _, name := range syncer.Mounted(&unstructured.Unstructured{Object: template}) {
				mounted[name] = true
			}
		}
	}
	missing.Tokens = slices.DeleteFunc(missing.Tokens, func(t syncer.Token) bool { return !mounted[t.Secret()] })
	if _, configMap := missing.Names(); !mounted[configMap] {
		missing.CA = ""
	}
	return missing
}

// mounted says that a pod below mounts a supply: of a template before the present one, or
// while it ends.
func (k *Keeper) mounted(p place) bool {
	for _, pod := range k.View.PhysicalIn(view.Pods, p.namespace) {
		for _, name := range syncer.Mounted(pod) {
			if name == p.name {
				return true
			}
		}
	}
	return false
}

func (k *Keeper) remove(ctx context.Context, gvr schema.GroupVersionResource, obj *unstructured.Unstructured, now time.Time) error {
	if now.Sub(obj.GetCreationTimestamp().Time) < sweepInterval {
		return nil // it is made before what mounts it
	}
	ctx, cancel := context.WithTimeout(ctx, connection.RequestTimeout)
	defer cancel()
	err := k.Down.Dynamic.Resource(gvr).Namespace(obj.GetNamespace()).Delete(ctx, obj.GetName(), metav1.DeleteOptions{
		Preconditions: metav1.NewUIDPreconditions(string(obj.GetUID())),
	})
	if syncer.IsOutdated(err, gvr.GroupResource(), obj.GetName()) {
		return nil
	}
	return err
}

func (k *Keeper) renew(ctx context.Context, obj *unstructured.Unstructured, now time.Time) error {
	in := syncer.SpaceOf(obj)
	if !syncer.HoldsToken(obj) {
		if ca := k.Server().CA; ca != "" && ca != syncer.CAIn(obj) {
			return k.Write(ctx, in, syncer.Supplies{CA: ca})
		}
		return nil
	}
	token, ok := syncer.TokenIn(obj)
	if !ok || syncer.StandingOf(obj, now) == syncer.SupplyGood {
		return nil
	}
	if account := k.View.Account(controller.Request{Cluster: in.Cluster, Namespace: in.Namespace}, token.Account); account == nil || account.UID != token.UID {
		return nil // its tokens ended with it, and the Copies say so
	}
	return k.write(ctx, in, syncer.Supplies{Tokens: []syncer.Token{token}})
}

// write writes supplies; that the control plane refuses or is silent is no error: what there
// is stays.
func (k *Keeper) write(ctx context.Context, in syncer.Space, s syncer.Supplies) error {
	err := k.Write(ctx, in, s)
	if apierrors.IsForbidden(err) || syncer.IsSilence(err) {
		klog.FromContext(ctx).V(2).Info("A token is not made", "namespace", in.Namespace, "err", err)
		return nil
	}
	return err
}
