package supplies

import (
	"context"
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
func (k *Keeper) Sweep(ctx context.Context, now time.Time) {
	held := append(k.View.Supplies(secrets), k.View.Supplies(configMaps)...)
	if len(held) == 0 {
		return
	}
	wanted := k.wanted()
	for _, obj := range held {
		if ctx.Err() != nil {
			return
		}
		gvr := configMaps
		if syncer.HoldsToken(obj) {
			gvr = secrets
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

// wanted are the places of all that templates above need.
func (k *Keeper) wanted() map[place]bool {
	wanted := map[place]bool{}
	server := k.Server()
	for _, kind := range k.View.Kinds().Kinds() {
		if kind.PodTemplate == nil {
			continue
		}
		for _, obj := range k.View.Objects(kind.GroupVersionResource()) {
			if !syncer.Keeps(k.View.Target, obj) {
				continue
			}
			key := view.KeyOf(kind, obj)
			namespace, ok := k.View.Namespace(key.Request.Cluster, key.Request.Namespace)
			if !ok {
				continue
			}
			account := k.View.Account(key.Request, syncer.AccountUsed(kind, obj))
			names, configMap := syncer.Needs(kind, obj, account, server).Names()
			for _, name := range names {
				wanted[place{secrets, syncer.PhysicalName(namespace), name}] = true
			}
			wanted[place{configMaps, syncer.PhysicalName(namespace), configMap}] = true
		}
	}
	return wanted
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
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
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
	err := k.Write(ctx, in, syncer.Supplies{Tokens: []syncer.Token{token}})
	if apierrors.IsForbidden(err) || syncer.IsSilence(err) {
		klog.FromContext(ctx).V(2).Info("A token is not renewed", "namespace", in.Namespace, "name", obj.GetName(), "err", err)
		return nil
	}
	return err
}
