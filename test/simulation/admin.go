package simulation

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/test/simulation/kube"
)

// admin is who writes in root.
const admin = "admin"

func (w *World) cordon(h Happening) {
	w.cluster(h.Physical).edit(admin, func(pc *fleetv1alpha1.PhysicalCluster) { pc.Spec.Unschedulable = !pc.Spec.Unschedulable })
}

func (w *World) registerLate(Happening) {
	p := w.cluster("north")
	p.register()
	p.startSyncerIfNone()
}

// forget: an admin gives "north" up. Mostly it has burnt down, for good; else its
// syncer works on until it hears of that.
func (w *World) forget(h Happening) {
	p := w.cluster("north")
	if !p.registered || p.dead {
		return
	}
	p.edit(admin, func(pc *fleetv1alpha1.PhysicalCluster) { pc.Spec.Forget = true })
	if h.N%3 == 0 {
		w.after(downtime(h.N), p.burnDown)
		return
	}
	p.burnDown()
}

// burnDown: the physical cluster is gone for good, and whoever worked beside it.
func (p *physical) burnDown() {
	p.dead = true
	for len(p.syncers) > 0 {
		p.syncers[0].crash()
	}
	p.work.stop()
}

// force: an admin loses patience with an object that is being deleted, and takes
// our finalizer off behind the server's back.
func (w *World) force(h Happening) {
	for _, gr := range copied {
		for _, obj := range w.api.List(gr) {
			key := w.api.KeyOf(gr, obj)
			if key.Cluster == h.Cluster && obj.GetDeletionTimestamp() != nil {
				w.say("force %s %s", key, obj.GetUID())
				w.api.RemoveFinalizer(impatient, key, placementv1alpha1.CopiesFinalizer)
				return
			}
		}
	}
}

var orphanOrders = []fleetv1alpha1.OrphanOrder{fleetv1alpha1.OrphanRemove, fleetv1alpha1.OrphanAdopt, fleetv1alpha1.OrphanLeave, fleetv1alpha1.OrphanDiscard}

// orderOrphans says what becomes of the orphans of a physical cluster: of all that
// have been found until now, or of one.
func (w *World) orderOrphans(h Happening) {
	p := w.cluster(h.Physical)
	order := orphanOrders[h.N%len(orphanOrders)]
	if h.N%2 == 0 {
		p.orderAll(order, w.now())
		return
	}
	undecided := slices.DeleteFunc(w.orphansOf(p), func(o *fleetv1alpha1.Orphan) bool { return o.Spec.Order != "" })
	if len(undecided) == 0 {
		return
	}
	o := undecided[h.N%len(undecided)].DeepCopy()
	o.Spec.Order = order
	w.must(w.api.Update(admin, orphans, o))
}

func (p *physical) orderAll(order fleetv1alpha1.OrphanOrder, before time.Time) {
	p.edit(admin, func(pc *fleetv1alpha1.PhysicalCluster) {
		pc.Spec.Orphans = &fleetv1alpha1.OrphansOrder{Order: order, FoundBefore: metav1.NewTime(before)}
	})
}

// orderAtLast gives all orphans one order, in half of the worlds.
func (w *World) orderAtLast() {
	if w.rng.IntN(2) == 0 {
		return
	}
	order := orphanOrders[w.rng.IntN(len(orphanOrders))]
	for _, p := range w.clusters {
		if !p.dead {
			p.orderAll(order, w.now().Add(time.Hour))
		}
	}
}

func (w *World) orphansOf(p *physical) (list []*fleetv1alpha1.Orphan) {
	for _, obj := range w.api.List(orphans) {
		if o := obj.(*fleetv1alpha1.Orphan); o.Spec.PhysicalCluster == p.name {
			list = append(list, o)
		}
	}
	return list
}

// orphan is what is listed of an object of a physical cluster; nil if it is not.
func (w *World) orphan(p *physical, uid types.UID) *fleetv1alpha1.Orphan {
	for _, o := range w.orphansOf(p) {
		if o.Spec.Object.UID == uid {
			return o
		}
	}
	return nil
}

// impatient admins are not bound by the rules.
const impatient = "impatient admin"

// adminInterval is how often an admin looks, once there is no more trouble.
const adminInterval = 5 * time.Second

// administer confirms what waits for that: that a cluster was emptied, and that the
// one behind the right credentials is the one that is meant.
func (w *World) administer() {
	for _, p := range w.clusters {
		pc, ok := w.api.Find(p.key()).(*fleetv1alpha1.PhysicalCluster)
		if !ok || p.dead {
			continue
		}
		if at := pc.Status.Identity.Emptied; at != nil && (pc.Spec.Emptied == nil || pc.Spec.Emptied.Unix() != at.Unix()) {
			p.edit(admin, func(pc *fleetv1alpha1.PhysicalCluster) { pc.Spec.Emptied = at })
		}
		ready := meta.FindStatusCondition(pc.Status.Conditions, fleetv1alpha1.ConditionReady)
		if ready != nil && ready.Reason == fleetv1alpha1.ReasonOtherCluster && pc.Spec.Identity != p.identity() {
			p.edit(admin, func(pc *fleetv1alpha1.PhysicalCluster) { pc.Spec.Identity = p.identity() })
		}
	}
	w.after(adminInterval, w.administer)
}

// identity is the UID of its namespace kube-system.
func (p *physical) identity() types.UID {
	return p.api.Find(kube.Key{Resource: namespaces, Name: metav1.NamespaceSystem}).GetUID()
}
