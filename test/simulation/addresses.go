package simulation

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/test/simulation/kube"
)

// SettledFirst: a new address takes the place of another one, or comes beside it, once what is behind it has been available for
// as long as the policies say, which here is the default.
const SettledFirst = "a new address waits for what is behind it"

const settling = 5 * time.Second

// settled checks a Service whose copy on a target is published from now on. What breaks after it was found to be available, and
// before anybody could know, is not foreseen; and what comes into another unit begins there where it is, also where it leads
// nowhere yet, which is said, see BackLate.
func (l *ledger) settled(e kube.Event, before placementv1alpha1.Targets) {
	if e.Key.Resource != services || e.New.GetDeletionTimestamp() != nil || l.world.withdraws || l.turnedBack > 0 ||
		text(e.New, "spec", "type") != string(corev1.ServiceTypeLoadBalancer) || !l.startsFirst(e.Key, cast(e.New)) ||
		e.Old != nil && e.Old.GetAnnotations()[placementv1alpha1.UnitAnnotation] != e.New.GetAnnotations()[placementv1alpha1.UnitAnnotation] {
		return
	}
	long := l.world.now().Add(-settling)
	receive := slices.DeleteFunc(before.Names(), func(name string) bool { t := before[name]; return !t.Receives() })
	for name, target := range targetsOf(e.New) {
		if before[name].State != placementv1alpha1.TargetStateStarting || !target.Receives() {
			continue
		}
		for _, other := range receive {
			if other == name || !l.world.serves(e.Key, e.New, other) {
				continue
			}
			for _, obj := range l.selected(e.Key, cast(e.New)) {
				// What is there of the other one, and of the one that is left, which may be a third.
				need := number(obj, "spec", "replicas")
				for _, there := range receive {
					least, most := l.available.since(long, obj.GetUID(), there)
					if most < 0 { // it was never in place
						least = 0
					}
					need = min(need, max(least, 0))
				}
				if was := l.available.until(long, obj.GetUID(), name); max(was, 0) < need {
					l.world.fail(SettledFirst, "%s is published on %s, where %d pods of %s were available %s ago, beside %s, where %d are", e.Key, name, was, obj.GetName(), settling, other, need)
				}
			}
		}
	}
}

// selected are the Deployments that a Service selects, and that are as many on each target.
func (l *ledger) selected(key kube.Key, service kube.Object) (out []kube.Object) {
	selector, _, _ := unstructured.NestedStringMap(cast(service).Object, "spec", "selector")
	for _, obj := range l.world.api.ListNamespace(deployments, key.Cluster, key.Namespace) {
		labels := labelsOf(part(obj, "spec", "template"))
		if !isObserved(obj) && !isDivided(targetsOf(obj)) && includes(labels, selector) { // of what is divided a place may have none
			out = append(out, obj)
		}
	}
	return out
}

// serves says that a target is known to be there, and that the copy of a Service on it has an address.
func (w *World) serves(key kube.Key, service kube.Object, name string) bool {
	p := w.cluster(name)
	c, ok := w.api.Find(kube.Key{
		Resource: copies, Cluster: key.Cluster, Namespace: key.Namespace, Name: syncer.CopyName(key.Resource, key.Name, name),
	}).(*placementv1alpha1.Copy)
	if p == nil || p.dead || !p.syncing() || !ok || c.Spec.Object.UID != service.GetUID() {
		return false
	}
	addresses, _, _ := unstructured.NestedSlice(observedIn(c), "loadBalancer", "ingress")
	return len(addresses) > 0
}

// until is the most that was available at a time or before, as far as that is remembered; -1 if nothing was in place.
func (a availability) until(at time.Time, uid types.UID, target string) (most int64) {
	most = -1
	for _, one := range a[instruction{uid, target}] {
		if !one.at.After(at) {
			most = max(most, one.n)
		}
	}
	return most
}

// addressesConverged: what leads to pods by the Services behind it has the addresses of those targets where it does, and a Service
// says so of the others. It has one on each target here, also if it is no load balancer, so that there is something to say of it.
func (w *World) addressesConverged(key kube.Key, obj *unstructured.Unstructured, below string, behind []string) {
	list, _, _ := unstructured.NestedSlice(obj.Object, "status", "loadBalancer", "ingress")
	want := w.published(obj, below, behind)
	if len(list) != len(want) {
		w.fail(Converges, "%s has the addresses %v, and is to have those of %v", key, list, want)
	}
	conditions, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions")
	says := slices.ContainsFunc(conditions, func(c any) bool {
		m, _ := c.(map[string]any)
		return m["type"] == syncer.AddressesCondition
	})
	if left := len(want) < len(targetsOf(obj)); key.Resource == services && says != left {
		w.fail(Converges, "%s has the addresses of %v, and the conditions %v", key, want, conditions)
	}
}

// published are the targets whose addresses are to be there: all but those where more of the Services behind it lead nowhere than
// on another one.
func (w *World) published(obj kube.Object, below string, behind []string) (names []string) {
	lacking := map[string][]string{}
	for name := range targetsOf(obj) {
		p := w.cluster(name)
		lacking[name] = slices.DeleteFunc(slices.Clone(behind), func(service string) bool {
			there := p.api.Find(kube.Key{Resource: services, Namespace: below, Name: service})
			slice := p.api.Find(kube.Key{Resource: endpointSlices, Namespace: below, Name: service + "-1"}) // as slicesOf names it
			return there != nil && (len(part(there, "spec", "selector")) == 0 || len(readyIn(slice)) > 0)
		})
	}
	for _, name := range targetsOf(obj).Names() {
		better := func(there []string) bool {
			return len(there) < len(lacking[name]) && !slices.ContainsFunc(there, func(s string) bool { return !slices.Contains(lacking[name], s) })
		}
		if !slices.ContainsFunc(slices.Collect(maps.Values(lacking)), better) {
			names = append(names, name)
		}
	}
	return names
}

// BackLate: an address that was left out comes back once it has led to pods for a while without a break.
const BackLate = "an address that leads to pods again waits"

// brief is what may pass between two looks of a syncer.
const brief = time.Second

// stretch says since when a Service of a physical cluster leads to pods, zero if it does not; from when until when it did before;
// and until when it last had done so for long enough.
type stretch struct{ since, began, ended, settled time.Time }

type serviceBelow struct{ physical, namespace, name string }

// leadsBelow notes whether a Service of a physical cluster leads to pods, by what became of its EndpointSlice.
func (l *ledger) leadsBelow(p *physical, e kube.Event) {
	if e.Key.Resource != endpointSlices {
		return
	}
	slice, now := e.New, l.world.now()
	if slice == nil {
		slice = e.Old
	}
	at := serviceBelow{p.name, e.Key.Namespace, slice.GetLabels()[discoveryv1.LabelServiceName]}
	was := l.ledBelow[at]
	next := was
	switch ready := len(readyIn(e.New)) > 0; {
	case ready && was.since.IsZero():
		if next.since = now; now.Sub(was.ended) < brief {
			next.since = was.began
		}
	case !ready && !was.since.IsZero():
		if now.Sub(was.since) >= settling-brief { // its syncer hears of the end a moment later
			next.settled = now
		}
		next.since, next.began, next.ended = time.Time{}, was.since, now
	}
	l.ledBelow[at] = next
}

// backLate checks what a Copy does not say any more to lead nowhere: what breaks before anybody could know is not foreseen.
func (l *ledger) backLate(old, c *placementv1alpha1.Copy) {
	p, key := l.world.cluster(c.Spec.PhysicalCluster), objectOf(c)
	if key.Resource != services && key.Resource != ingresses || old.Spec.Object.UID != c.Spec.Object.UID || old.Status.PhysicalUID != c.Status.PhysicalUID || !p.isFollowed() {
		return
	}
	_, copied := p.api.ByUID(c.Status.PhysicalUID)
	if copied == nil {
		return
	}
	for _, name := range old.Status.NoEndpoints {
		service := p.api.Find(kube.Key{Resource: services, Namespace: copied.GetNamespace(), Name: name})
		if slices.Contains(c.Status.NoEndpoints, name) || service == nil || len(part(service, "spec", "selector")) == 0 || !l.alwaysBehind(key, c.Spec.Object.UID, name) {
			continue
		}
		now, state := l.world.now(), l.ledBelow[serviceBelow{p.name, copied.GetNamespace(), name}]
		if (state.since.IsZero() || now.Sub(state.since) < settling) && now.Sub(state.settled) > lately {
			l.world.fail(BackLate, "%s is said to lead to pods of %s on %s, which does since %v", key, name, p.name, state.since)
		}
	}
}

// isFollowed says that a syncer of a physical cluster has heard for a while what Services lead to there.
func (p *physical) isFollowed() bool {
	return slices.ContainsFunc(p.streamsOf(), func(s *stream) bool {
		return s.front == p.front && s.res.GroupResource() == endpointSlices && p.world.now().Sub(s.began) > lately
	})
}

// alwaysBehind says that an object never led by other Services.
func (l *ledger) alwaysBehind(key kube.Key, uid types.UID, name string) bool {
	return !slices.ContainsFunc(l.versions[uid], func(v *unstructured.Unstructured) bool {
		if key.Resource == services {
			return text(v, "spec", "type") != string(corev1.ServiceTypeLoadBalancer)
		}
		return !slices.Contains(behindOf(v), name)
	})
}
