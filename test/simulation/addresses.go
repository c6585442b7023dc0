package simulation

import (
	"time"

	corev1 "k8s.io/api/core/v1"
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
// before anybody could know, is not foreseen.
func (l *ledger) settled(e kube.Event, before placementv1alpha1.Targets) {
	if e.Key.Resource != services || e.New.GetDeletionTimestamp() != nil || l.world.withdraws || l.turnedBack > 0 ||
		text(e.New, "spec", "type") != string(corev1.ServiceTypeLoadBalancer) || !l.startsFirst(e.Key, cast(e.New)) {
		return
	}
	long := l.world.now().Add(-settling)
	for name, target := range targetsOf(e.New) {
		if before[name].State != placementv1alpha1.TargetStateStarting || !target.Receives() {
			continue
		}
		for other, t := range before {
			if other == name || !t.Receives() || !l.world.serves(e.Key, e.New, other) {
				continue
			}
			for _, obj := range l.selected(e.Key, cast(e.New)) {
				least, _ := l.available.since(long, obj.GetUID(), other)
				if was, need := l.available.until(long, obj.GetUID(), name), min(least, number(obj, "spec", "replicas")); was < need {
					l.world.fail(SettledFirst, "%s is published on %s, where %d pods of %s were available %s ago, beside %s, where %d are", e.Key, name, was, obj.GetName(), settling, other, least)
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

// published are the targets whose addresses a Service is to have: a load balancer those where it leads to a pod, or else all.
func (w *World) published(key kube.Key, service kube.Object, below string) (names []string) {
	all := targetsOf(service).Names()
	if text(service, "spec", "type") != string(corev1.ServiceTypeLoadBalancer) {
		return all // which have one here, so that there is something to say of them
	}
	for _, name := range all {
		slice := w.cluster(name).api.Find(kube.Key{Resource: endpointSlices, Namespace: below, Name: key.Name + "-1"}) // as slicesOf names it
		if len(part(service, "spec", "selector")) == 0 || len(readyIn(slice)) > 0 {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return all
	}
	return names
}
