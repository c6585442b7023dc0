package supplies

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
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

// workers are how many supplies are written at a time. What one logical cluster has to be renewed may be
// thousands of tokens.
const workers = 4

// Run renews and removes until ctx is done.
func (k *Keeper) Run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { k.queue.Run(ctx) })
	ticker := time.NewTicker(sweepInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			for _, d := range k.sweep(ctx, time.Now()) {
				k.queue.Enqueue(d)
			}
			if err := k.SweepNames(ctx, time.Now()); err != nil {
				klog.FromContext(ctx).Error(err, "Keeping the ports of atoll-dns failed, will try again")
			}
		}
	}
}

// ShutDown implements the queue of a session.
func (k *Keeper) ShutDown() { k.queue.ShutDown() }

// due is a supply that is to be written, of one kind or the other, or to be removed.
type due struct {
	in    syncer.Space
	token syncer.Token
	ca    string
	// unneeded is where one is that is to be removed, and uid which.
	unneeded place
	uid      types.UID
}

// LogicalCluster is whose it is: those of one hold up those of no other, see controller.New.
func (d due) LogicalCluster() logicalcluster.Name { return d.in.Cluster }

// String says which it is in logs.
func (d due) String() string {
	switch {
	case d.uid != "":
		return d.unneeded.namespace + "/" + d.unneeded.name
	case d.ca != "":
		return d.in.Physical + "/certificate authority"
	}
	return d.in.Physical + "/" + d.token.Secret()
}

// keep writes a supply that was found to be due, unless that was done meanwhile, or removes it. If it fails, the next sweep finds
// it again.
func (k *Keeper) keep(ctx context.Context, d due) (controller.Result, error) {
	if d.uid != "" {
		if err := k.remove(ctx, d); err != nil {
			klog.FromContext(ctx).Error(err, "Removing what no pod mounts failed, will try again", "namespace", d.unneeded.namespace, "name", d.unneeded.name)
		}
		return controller.Result{}, nil
	}
	s, isThere := syncer.Supplies{Tokens: []syncer.Token{d.token}}, k.renewed
	if d.ca != "" {
		s, isThere = syncer.Supplies{CA: d.ca}, k.hasCA
	}
	if isThere(d) {
		return controller.Result{}, nil
	}
	if err := k.write(ctx, d.in, s); err != nil {
		klog.FromContext(ctx).Error(err, "Writing what pods mount failed, will try again", "namespace", d.in.Physical)
	}
	return controller.Result{}, nil
}

// renewed says that a token need not be asked for: a good one is there, or was written a moment ago, or
// its account has gone.
func (k *Keeper) renewed(d due) bool {
	account := k.View.Account(controller.Request{Cluster: d.in.Cluster, Namespace: d.in.Namespace}, d.token.Account)
	if account == nil || account.UID != d.token.UID {
		return true // its tokens ended with it, and the Copies say so
	}
	p := place{secrets, d.in.Physical, d.token.Secret()}
	obj, ok := k.View.Physical(p.resource, controller.Request{Namespace: p.namespace, Name: p.name})
	return k.wrote(p) || ok && syncer.IsSupply(k.View.ControlPlane, obj) && syncer.StandingOf(obj, time.Now()) == syncer.SupplyGood
}

// hasCA says that the authority is there.
func (k *Keeper) hasCA(d due) bool {
	_, configMap := syncer.Supplies{CA: d.ca}.Names()
	obj, ok := k.View.Physical(configMaps, controller.Request{Namespace: d.in.Physical, Name: configMap})
	return ok && syncer.IsSupply(k.View.ControlPlane, obj) && syncer.CAIn(obj) == d.ca
}

// sweep looks at all supplies once, and returns what is to be written, or removed.
//
//	the supply      mounted below, or wanted above  then
//	of any kind     no                              removed by its UID, if it is older than the interval, and
//	                                                nothing above wants it by then
//	Good            yes                             nothing
//	Due, Expired    yes                             renewed; if the control plane refuses, it stays: its
//	                                                account is gone, or the template that named it
//	another CA      yes                             written anew
//	lost            by a copy that is there         written anew: its next pods do not start else
func (k *Keeper) sweep(ctx context.Context, now time.Time) []due {
	wanted, lost := k.wanted()
	var all []due
	mounted := k.mounted()
	for _, gvr := range []schema.GroupVersionResource{secrets, configMaps} {
		for obj := range k.View.Supplies(gvr) {
			if ctx.Err() != nil {
				return nil
			}
			p := place{gvr, obj.GetNamespace(), obj.GetName()}
			if wanted[p] || mounted(p) {
				all = append(all, k.outdated(obj, now)...)
				continue
			}
			if now.Sub(obj.GetCreationTimestamp().Time) >= sweepInterval { // it is made before what mounts it
				all = append(all, due{in: syncer.SpaceOf(obj), unneeded: p, uid: obj.GetUID()})
			}
		}
	}
	for in, supplies := range lost {
		for _, s := range supplies {
			missing := k.Missing(in.Physical, s)
			for _, t := range missing.Tokens {
				all = append(all, due{in: in, token: t})
			}
			if missing.CA != "" {
				all = append(all, due{in: in, ca: missing.CA})
			}
		}
	}
	return all
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
			in, needs, ok := k.needs(kind, obj, server)
			if !ok {
				continue
			}
			for _, p := range places(in, needs) {
				wanted[p] = true
			}
			if missing := k.lacking(kind, in, obj.GetName(), needs); !missing.Empty() {
				lost[in] = append(lost[in], missing)
			}
		}
	}
	return wanted, lost
}

// needs are what the template of an object needs, and where; ok is false if it is not to be here.
func (k *Keeper) needs(kind workload.Kind, obj *unstructured.Unstructured, server syncer.Server) (in syncer.Space, needs syncer.Supplies, ok bool) {
	if !syncer.Keeps(k.View.Target, obj) {
		return in, needs, false
	}
	key := view.KeyOf(kind, obj)
	namespace, ok := k.View.Namespace(key.Request.Cluster, key.Request.Namespace)
	if !ok {
		return in, needs, false
	}
	account := k.View.Account(key.Request, syncer.AccountUsed(kind, obj))
	in = syncer.Space{Cluster: key.Request.Cluster, Namespace: key.Request.Namespace, Physical: syncer.PhysicalName(namespace)}
	return in, syncer.Needs(kind, obj, account, server), true
}

// places are where supplies are.
func places(in syncer.Space, s syncer.Supplies) (all []place) {
	names, configMap := s.Names()
	for _, name := range names {
		all = append(all, place{secrets, in.Physical, name})
	}
	return append(all, place{configMaps, in.Physical, configMap})
}

// needed says that a template of a namespace above needs a supply.
func (k *Keeper) needed(in syncer.Space, p place) bool {
	server := k.Server()
	for _, kind := range k.View.Kinds().Kinds() {
		if kind.PodTemplate == nil {
			continue
		}
		for _, obj := range k.View.ObjectsIn(kind.GroupVersionResource(), in.Cluster, in.Namespace) {
			if at, needs, ok := k.needs(kind, obj, server); ok && slices.Contains(places(at, needs), p) {
				return true
			}
		}
	}
	return false
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

// mounted says whether a pod below mounts a supply: of a template before the present one, or
// while it ends. The pods of a namespace are read once.
func (k *Keeper) mounted() func(place) bool {
	read := map[string]map[string]bool{}
	return func(p place) bool {
		names, ok := read[p.namespace]
		if !ok {
			names = map[string]bool{}
			for _, pod := range k.View.PhysicalIn(view.Pods, p.namespace) {
				for _, name := range syncer.Mounted(pod) {
					names[name] = true
				}
			}
			read[p.namespace] = names
		}
		return names[p.name]
	}
}

// remove removes a supply that the sweep did not find to be needed, unless it is by now.
func (k *Keeper) remove(ctx context.Context, d due) error {
	p := d.unneeded
	if k.needed(d.in, p) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, connection.RequestTimeout)
	defer cancel()
	err := k.Down.Dynamic.Resource(p.resource).Namespace(p.namespace).Delete(ctx, p.name, metav1.DeleteOptions{
		Preconditions: metav1.NewUIDPreconditions(string(d.uid)),
	})
	if syncer.IsOutdated(err, p.resource.GroupResource(), p.name) {
		return nil
	}
	return err
}

// outdated is a supply if it is to be written anew.
func (k *Keeper) outdated(obj *unstructured.Unstructured, now time.Time) []due {
	in := syncer.SpaceOf(obj)
	if !syncer.HoldsToken(obj) {
		if ca := k.Server().CA; ca != "" && ca != syncer.CAIn(obj) {
			return []due{{in: in, ca: ca}}
		}
		return nil
	}
	token, ok := syncer.TokenIn(obj)
	if !ok || syncer.StandingOf(obj, now) == syncer.SupplyGood {
		return nil
	}
	return []due{{in: in, token: token}}
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
