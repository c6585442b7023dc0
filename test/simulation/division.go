package simulation

import (
	"math"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/test/simulation/kube"
)

// What has to hold of replicas that are divided.
const (
	// NoneMissing: replicas come to what was asked for in sum, and while they are divided
	// anew, none is given up before it is available elsewhere.
	NoneMissing = "divided replicas are the wish in sum"
	// SharesFit: at rest each share is the exact one, rounded up or down.
	SharesFit = "shares fit"
)

// parts is the policy by which users divide replicas in a namespace.
const parts = "parts"

func partsOf(h Happening) kube.Key {
	return kube.Key{Resource: namespacePolicies, Cluster: h.Cluster, Namespace: h.Namespace, Name: parts}
}

// divide: a user has the replicas of a namespace divided over two physical clusters, or
// divided otherwise.
func (w *World) divide(h Happening) {
	key := partsOf(h)
	rules := map[string]any{
		"mode": string(placementv1alpha1.ReplicasDivide),
		"by":   string([]placementv1alpha1.DivideBy{placementv1alpha1.DivideByWeights, placementv1alpha1.DivideByWeights, placementv1alpha1.DivideByPacked, placementv1alpha1.DivideByFree}[h.N%4]),
	}
	if h.N%4 < 2 {
		rules["targets"] = []any{map[string]any{"term": map[string]any{"matchLabels": map[string]any{nameLabel: h.Physical}}, "weight": int64(h.N % 5)}}
	}
	spec := map[string]any{"count": int64(2), "replicas": rules}
	if w.api.Find(key) != nil {
		w.update(w.people, key, func(u *unstructured.Unstructured) bool { u.Object["spec"] = spec; return true })
		return
	}
	w.create(key, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": placementv1alpha1.SchemeGroupVersion.String(), "kind": "PlacementPolicy",
		"metadata": map[string]any{"name": key.Name, "namespace": key.Namespace}, "spec": spec,
	}}, nil)
}

// undivide: a user takes that back.
func (w *World) undivide(h Happening) {
	if key := partsOf(h); w.api.Find(key) != nil {
		w.remove(key, 3)
	}
}

// scale: a user wants another number of replicas, by the object or by its Scale, which
// admission of the object does not see.
func (w *World) scale(h Happening) {
	if h.Resource != replicaSets {
		h.Resource = deployments
	}
	w.scaleTo(h, int64(h.N%7))
}

// scaleTo sets the number of replicas of what is not there by itself.
func (w *World) scaleTo(h Happening, n int64) {
	set := func(u *unstructured.Unstructured) bool {
		_ = unstructured.SetNestedField(u.Object, n, "spec", "replicas") // a path of maps
		return true
	}
	if h.N%2 == 0 {
		w.update(w.people, h.key(), set)
		return
	}
	if old := cast(w.api.Find(h.key())); old != nil && !isObserved(old) {
		u := changed(old)
		set(u)
		if _, err := w.api.Update(person, h.Resource, u); err != nil {
			w.say("scale: %v", err)
		}
	}
}

// availability has, by object and target, how many pods its Copy said to be available
// lately.
type availability map[instruction][]availableAt

type availableAt struct {
	at time.Time
	n  int64
}

// lately is how long a request may take that was decided by what was available.
const lately = 10 * time.Second

func (a availability) note(now time.Time, uid types.UID, target string, n int64) {
	key := instruction{uid, target}
	list := a[key]
	for len(list) > 1 && now.Sub(list[1].at) > lately { // the first one counted until the second
		list = list[1:]
	}
	a[key] = append(list, availableAt{now, n})
}

// most is the most that was available lately.
func (a availability) most(now time.Time, uid types.UID, target string) (n int64) {
	list := a[instruction{uid, target}]
	for i, one := range list {
		if i == len(list)-1 || now.Sub(list[i+1].at) <= lately {
			n = max(n, one.n)
		}
	}
	return n
}

// deciding is how long the reads and the write of a decision to remove may take.
const deciding = 250 * time.Millisecond

// since are the least and the most that was available at some time and since; -1 is what is not
// in place.
func (a availability) since(at time.Time, uid types.UID, target string) (least, most int64) {
	list := a[instruction{uid, target}]
	least, most = math.MaxInt64, -1
	for i, one := range list {
		if i == len(list)-1 || list[i+1].at.After(at) {
			least, most = min(least, one.n), max(most, one.n)
		}
	}
	return least, most
}

// shared checks the targets that an object gets whose replicas are divided.
func (l *ledger) shared(e kube.Event, before placementv1alpha1.Targets) {
	now := targetsOf(e.New)
	if !kindOf(e.Key.Resource).Replicated() || e.Old == nil || e.New.GetDeletionTimestamp() != nil || l.world.withdraws || l.turnedBack > 0 ||
		targetsText(e.Old) == targetsText(e.New) || !isDivided(now) {
		return
	}
	wish, sum := number(e.New, "spec", "replicas"), int64(0)
	for _, t := range now {
		if t.NoCopy() {
			return
		}
		if t.Keeps() {
			sum += int64(ptr.Deref(t.Replicas, int32(wish))) //nolint:gosec // a few
		}
	}
	if sum < wish {
		l.world.fail(NoneMissing, "%s wants %d replicas, and has %d: %s", e.Key, wish, sum, targetsText(e.New))
	}
	if number(e.Old, "spec", "replicas") != wish || !sharesOut(before, wish) {
		return // fewer are wanted than before, or more
	}
	if len(l.world.scalersOf(e.Key)) > 0 {
		return // how many run, and no fewer than, is what they say
	}
	// What became available after it was decided comes too late.
	had := l.running(e, before, wish, func(target string) int64 {
		least, most := l.available.since(l.world.now().Add(-deciding), e.New.GetUID(), target)
		return min(least, max(0, most))
	})
	has := l.running(e, now, wish, func(target string) int64 { return l.available.most(l.world.now(), e.New.GetUID(), target) })
	if has < min(had, wish) {
		l.world.fail(NoneMissing, "%s wants %d replicas, had %d available by %s, and has %d by %s", e.Key, wish, had, targetsText(e.Old), has, targetsText(e.New))
	}
}

// running is how many of the replicas that targets have are available. What is left in this
// write is for ReplacedFirst.
func (l *ledger) running(e kube.Event, targets placementv1alpha1.Targets, wish int64, available func(target string) int64) (n int64) {
	for name, t := range targets {
		if t.Keeps() && targetsOf(e.New)[name].Keeps() {
			n += min(max(0, available(name)), int64(ptr.Deref(t.Replicas, int32(wish)))) //nolint:gosec // a few
		}
	}
	return n
}

func isDivided(targets placementv1alpha1.Targets) bool {
	for _, t := range targets {
		if t.Keeps() && t.Replicas != nil {
			return true
		}
	}
	return false
}

// sharesOut says that targets have shares of a wish, or each all of it.
func sharesOut(targets placementv1alpha1.Targets, wish int64) bool {
	sum := int64(0)
	for _, t := range targets {
		if t.Keeps() {
			sum += int64(ptr.Deref(t.Share, ptr.Deref(t.Replicas, 0)))
		}
	}
	return sum == wish || !isDivided(targets)
}

// sharesConverged: what is divided has its shares, by weights the exact ones rounded.
// Else each target has all.
func (w *World) sharesConverged(key kube.Key, obj *unstructured.Unstructured, in []*placementv1alpha1.Placement) {
	if !kindOf(key.Resource).Replicated() || len(in) != 1 || w.withdraws {
		return
	}
	targets, wish := targetsOf(obj), number(obj, "spec", "replicas")
	division := stamp.DivisionOf(in[0])
	if division == nil {
		if isDivided(targets) {
			w.fail(Converges, "%s has %s, and its unit divides nothing", key, targetsText(obj))
		}
		return
	}
	if w.claimsLack(key.Cluster, key.Namespace) {
		return // a share is given up once it runs elsewhere
	}
	weights := int64(0)
	for _, d := range division.Targets {
		weights += int64(d.Weight)
	}
	sum := int64(0)
	for _, d := range division.Targets {
		t, ok := targets[d.PhysicalCluster]
		if !ok || t.Replicas == nil || t.Share != nil {
			w.fail(SharesFit, "%s has %s, and its unit divides %d replicas: %v", key, targetsText(obj), wish, division.Targets)
			return
		}
		share := int64(*t.Replicas)
		sum += share
		if division.By == placementv1alpha1.DivideByWeights && weights > 0 && (share*weights <= wish*int64(d.Weight)-weights || share*weights >= wish*int64(d.Weight)+weights) {
			w.fail(SharesFit, "%s has %d of %d replicas on %s: %v", key, share, wish, d.PhysicalCluster, division.Targets)
		}
	}
	if sum != wish {
		w.fail(NoneMissing, "%s has %s at rest, and wants %d", key, targetsText(obj), wish)
	}
}
