package transition

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// missing is what the replacement of what receives traffic where the unit leaves lacks.
// Nothing has to be better than it is there, see leaves. late says that all of it comes by itself, and
// that traffic is none the worse until it does.
func (s State) missing(t *placementv1alpha1.Transition) (waits []string, late bool) {
	var places, behind []string
	if s.Stale > 0 {
		behind = append(behind, unstamped(s.Stale))
	}
	for _, name := range s.Decided {
		if why := s.NotReady[name]; why != "" && len(t.From) > 0 {
			places = append(places, fmt.Sprintf("%s: %s", name, why))
		}
		for _, o := range s.Objects {
			switch what, comes := s.lacks(o, name, o.leaves(t, name)); {
			case what == "":
			case comes:
				behind = append(behind, fmt.Sprintf("%s on %s: %s", o, name, what))
			default:
				waits = append(waits, fmt.Sprintf("%s on %s: %s", o, name, what))
			}
		}
	}
	waits = append(waits, s.unknown(t.From)...)
	waits = append(waits, s.notShared(t.From)...)
	waits = append(waits, s.letGo(t.From)...)
	for _, o := range s.Objects {
		if why := s.short(o, t); why != "" {
			waits = append(waits, fmt.Sprintf("%s: %s", o, why))
		}
	}
	late = len(places)+len(waits) == 0
	waits = append(waits, behind...)
	slices.Sort(places)
	slices.Sort(waits)
	return append(places, waits...), late // a few are named: first why all the others may wait
}

// leaves are the physical clusters with which the copy of an object on a target is compared:
// those that the unit leaves. Where a move was begun that is not wanted any more counts only
// if nothing else serves: what it left may never have worked.
//
//	the object, where it had the traffic   a place that is left is   compared
//	or stays                               Withdrawn
//	any                                    no                        yes
//	is in place, and has pods if it        yes                       no
//	is to have any
//	else                                   yes                       yes
func (o Object) leaves(t *placementv1alpha1.Transition, stays string) []string {
	from := slices.DeleteFunc(slices.Clone(t.From), func(name string) bool { return slices.Contains(t.Withdrawn, name) })
	serves := slices.ContainsFunc(o.on(append(slices.Clone(from), stays)), func(c *placementv1alpha1.Copy) bool {
		want, counts := wanted(o, c)
		return applied(c) && (!counts || want == 0 || availableIn(c) > 0)
	})
	if serves {
		return from
	}
	return t.From
}

// lacks says what the copy of an object on a target lacks; empty: nothing.
//
//	the object                               lacks                                      late
//	is going, mirrored, or has no copy there nothing: it waits, ended, or runs elsewhere
//	is being removed there                   the end of that                            no
//	was in place nowhere, or is not where    nothing
//	the unit leaves, and its syncer there
//	has said why it is not there either
//	is not in place there, and its syncer    that                                       if it is not in place where
//	has not said why                                                                    the unit leaves either
//	is an autoscaler that is not in place    the reason on the Copy                     yes: it waited for
//	                                                                                    the traffic, see stamp
//	any other is not in place there          the reason on the Copy                     no
//	has fewer pods available than wanted,    pods; nothing if they mount a claim that   no
//	and than before                          comes there only once its volume is given
//	                                         up, see awaitsClaims
//	is a Service that had more ready         endpoints; nothing if it is to lead to    no
//	endpoints, and has the pods for them     none there as yet, see leadsLater
//	is an Ingress or a Service of the type   an address                                 no
//	LoadBalancer that had an address
//	none of these, and was written since     that it is as written                      yes
//	it was in place there
//
// How many are wanted of what an autoscaler scales: see scaledTo.
func (s State) lacks(o Object, name string, from []string) (what string, late bool) {
	entry, ok := o.targets()[name]
	switch {
	case !ok || o.Logical.GetDeletionTimestamp() != nil:
		return "", false
	case entry.State == placementv1alpha1.TargetStateRemoving:
		return "an earlier removal has to end first", false
	case !entry.Keeps():
		return "", false
	}
	c, before := o.Copies[name], o.on(from)
	behind := ""
	if !synced(c, o.Logical.GetGeneration()) {
		reason, was := why(c), slices.ContainsFunc(before, applied)
		switch {
		case tried(c) && !was && (len(before) > 0 || o.onNone(from)):
			return "", false // it was not in place before either
		case !tried(c) && !was, stamp.IsAutoscaler(o.Kind):
			return reason, true
		case c == nil, !applied(c):
			return reason, false
		}
		behind = reason
	}
	had := int64(0)
	for _, b := range before {
		had = max(had, availableIn(b))
	}
	if want, counts := wanted(o, c); counts {
		want = min(o.scaledTo(c, want), had)
		if c.Status.ObservedGeneration < o.Logical.GetGeneration() && had > 0 && behind == "" {
			behind = "its controller has not looked at it yet"
		}
		if have := availableIn(c); have < want && entry.Replicas == nil && !s.awaitsClaims(o, name) { // see short
			return fmt.Sprintf("%d of %d pods are available%s", have, want, refused(c)), false
		}
	}
	if o.Kind.Semantics == workload.ServiceSemantics {
		// As many as it had, as far as there are pods for them: slices follow pods later.
		want, have := min(s.ready(o, from...), max(1, s.available(o, name))), s.ready(o, name)
		if s.leadsToDivided(o) { // what was left had a part only
			want = max(want, s.available(o, name))
		}
		if have < want && !s.leadsLater(o, name) {
			return fmt.Sprintf("%d of %d endpoints are ready", have, want), false
		}
	}
	if o.getsAddress() && slices.ContainsFunc(before, hasAddress) && !hasAddress(c) {
		return "it has no address", false
	}
	return behind, behind != ""
}

// onNone says that an object is to be on none of the physical clusters that its unit leaves: it was
// made when these received nothing new any more. There are none: it says nothing.
func (o Object) onNone(from []string) bool {
	targets := o.targets()
	return len(from) > 0 && !slices.ContainsFunc(from, func(name string) bool { entry, ok := targets[name]; return ok && entry.Keeps() })
}

// leadsLater says that a Service is not to lead to anything on a target before others are stopped: of what it selects, each has
// no pods there until then. Where it selects nothing that makes pods that is not known.
//
//	what it selects, on the target            pods there
//	is not, is going, or is mirrored          none of its own
//	has no copy yet, as it must not run twice once others are stopped
//	mounts a claim that comes later           once that is there
//	has no ordinals yet, and gets some        once others do not run them
//	has no share, or wants none               none
//	else                                      now
func (s State) leadsLater(service Object, name string) bool {
	known := false
	for _, i := range s.selected(selectorOf(service)) {
		o := s.Objects[i]
		entry, ok := o.targets()[name]
		if !ok || entry.State == placementv1alpha1.TargetObserved || o.Logical.GetDeletionTimestamp() != nil {
			continue
		}
		if !entry.NoCopy() && !s.awaitsClaims(o, name) && !stamp.AwaitsOrdinals(entry) && !wantsNone(o, name, entry) {
			return false
		}
		known = true
	}
	return known
}

// wantsNone says that an object has no pods on a target, and is to have none: it has no share of them, or was scaled to nothing,
// and no autoscaler makes some of that.
func wantsNone(o Object, name string, entry placementv1alpha1.Target) bool {
	if len(o.Kind.Replicas) == 0 || ptr.Deref(entry.Share, 0) > 0 || availableIn(o.Copies[name]) > 0 {
		return false
	}
	if by, ok := o.scaler(); ok && workload.ScalesFromNothing(by.Kind.GroupKind(), by.Object) {
		return false
	}
	return stamp.StartOn(entry, stamp.ReplicasOn(o.Logical, name, workload.Replicas(o.Kind, o.Logical.Object))) == 0
}

// available counts the pods that a Service selects on a target, by what made them.
func (s State) available(service Object, name string) int {
	s = s.indexed()
	n := int64(0)
	for _, i := range s.selected(selectorOf(service)) {
		n += s.index.available[i][name]
	}
	return int(n)
}

// selectorOf is what pods a Service leads to; empty if it leads to none of its own accord: its
// endpoints are written by others, or it is another name of something.
func selectorOf(service Object) map[string]string {
	if kind, _, _ := unstructured.NestedString(service.Logical.Object, "spec", "type"); kind == string(corev1.ServiceTypeExternalName) {
		return nil
	}
	selector, _, _ := unstructured.NestedStringMap(service.Logical.Object, "spec", "selector")
	return selector
}

func selects(selector map[string]string, o Object) bool {
	return slices.ContainsFunc(workload.PodTemplates(o.Kind, o.Logical.Object), func(template map[string]any) bool {
		labels, _, _ := unstructured.NestedStringMap(template, "metadata", "labels")
		return matches(selector, labels)
	})
}

func (s State) ready(o Object, targets ...string) int {
	n := 0
	for _, name := range targets {
		n += s.Endpoints[o.Logical.GetName()][name]
	}
	return n
}
