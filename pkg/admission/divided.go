package admission

import (
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/utils/ptr"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// wishOf is what is divided of the object of a request, if anything is.
func (p *placing) wishOf(ctx context.Context, r *request, kind workload.Kind) (*stamp.Wish, error) {
	undivided := r.division == nil && !stamp.Ranged(r.obj) && !stamp.HasPart(r.obj)
	if undivided || !kind.Divisible() || r.wish != nil {
		return r.wish, nil
	}
	content, err := external(kind, r.GetObject())
	if err != nil {
		return nil, err
	}
	var others []stamp.Other
	if stamp.IsAboutOthers(kind) {
		if others, err = p.others(ctx, r, stamp.MayBeOther); err != nil {
			return nil, err
		}
	}
	wish := stamp.WishOf(kind, content, others)
	if wish != nil && wish.Ordinals != nil {
		if err := p.ordinals(ctx, r, kind, wish.Ordinals, content); err != nil {
			return nil, err
		}
	}
	r.wish = wish
	return r.wish, nil
}

// others are objects of some kinds in the namespace: what a disruption budget may be about, or
// what may scale. They are read as fresh as the request wants: what was not seen yet has the
// controller look once more.
func (p *placing) others(ctx context.Context, r *request, of func(workload.Kind) bool) ([]stamp.Other, error) {
	return p.units.lookup.objectsOf(ctx, r.kinds, controller.Request{Cluster: r.cluster, Namespace: r.GetNamespace()}, of, r.freshness())
}

// objectsOf are the objects of some kinds in a namespace.
func (l *lookup) objectsOf(ctx context.Context, kinds workload.Catalog, in controller.Request, of func(workload.Kind) bool, fresh metav1.ListOptions) ([]stamp.Other, error) {
	out := []stamp.Other{}
	if l.dynamic == nil {
		return nil, nil
	}
	for _, kind := range kinds.Kinds() {
		if !of(kind) {
			continue
		}
		list, err := l.dynamic.Resource(kind.GroupVersionResource()).Namespace(in.Namespace).List(at(ctx, in.Cluster), fresh)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", kind.Resource, err)
		}
		for i := range list.Items {
			out = append(out, stamp.Other{Kind: kind, Unstructured: &list.Items[i]})
		}
	}
	return out, nil
}

// warnDivided tells a user what is not as one physical cluster would have it, though, or
// because, replicas are divided.
//
//	the object                                       then
//	is of a kind that is not divided, or about what  each physical cluster has all of it
//	is not
//	cannot be divided                                where it runs as a whole
//	is a budget that permits no disruption           nodes there cannot be drained
//	somewhere, but does elsewhere
//	is an autoscaler whose parts, one at least,      what they come to
//	come to more than its minimum
//	is a Job that has begun, of which less or more   its parts stay
//	shall run at a time
func warnDivided(ctx context.Context, r *request, kind workload.Kind) {
	if r.division == nil || len(r.division.Targets) < 2 || stamp.Mirrored(r.obj) {
		return
	}
	if say := notAsOne(kind, r.wish, stamp.TargetsOf(r.obj.GetAnnotations()), dividedOver(r.division)); say != "" {
		warning.AddWarning(ctx, "", fmt.Sprintf("%s %s %s", kind.Kind, r.obj.GetName(), say))
	}
}

// notAsOne is that warning; empty if there is none. over are the physical clusters.
func notAsOne(kind workload.Kind, wish *stamp.Wish, targets placementv1alpha1.Targets, over string) string {
	counts := len(kind.Replicas)+len(kind.Parallelism)+len(kind.Scales) > 0
	switch {
	case wish != nil && wish.Ordinals != nil && !anyRange(targets):
		why := fmt.Sprintf("on one of %s its syncer, or its Kubernetes, cannot run a range of ordinals", over)
		if wish.Ordinals.Scaled {
			why = "an autoscaler scales it, which would leave its range of ordinals"
		} else if wish.Ordinals.Claims {
			why += ", or they have claims of all ordinals already"
		}
		return fmt.Sprintf("is not divided, as %s: each of %s has all of it", why, over)
	case counts && !kind.Divisible():
		return fmt.Sprintf("is not divided, as its kind is not: each of %s has all of it", over)
	case wish == nil:
		return ""
	case wish.Alone:
		return alone(targets)
	case wish.Whole && wish.Replicas > 0:
		return fmt.Sprintf("is not divided, as not all that it is about is: each of %s has all of it", over)
	case wish.Runs && sum(targets, replicas) > 0 && sum(targets, replicas) != int64(wish.Replicas):
		return fmt.Sprintf("has begun, and its parts stay as they are: %d pods at a time", sum(targets, replicas))
	case wish.Max != nil && sum(targets, shareOf) > int64(wish.Replicas):
		return fmt.Sprintf("scales to no fewer than %d replicas: none of its parts can start from nothing", sum(targets, shareOf))
	case wish.Weights != nil:
		if none := wish.Forbids(targets); len(none) > 0 {
			return fmt.Sprintf("permits no disruption on %s: its part there is too small. Nodes cannot be drained while such pods are on them; a percentage has parts everywhere",
				strings.Join(none, ", "))
		}
	}
	return ""
}

// alone says where a CronJob, or a Job whose pods are numbered or of which none may run, runs as a whole.
func alone(targets placementv1alpha1.Targets) string {
	var on, waits []string
	for _, name := range targets.Names() {
		switch {
		case targets[name].Keeps():
			on = append(on, name)
		case targets[name].State == placementv1alpha1.TargetStateWaiting:
			waits = append(waits, name)
		}
	}
	switch {
	case len(on) > 1:
		return fmt.Sprintf("is not divided, as it has begun: each of %s has all of it", strings.Join(on, ", "))
	case len(on) == 1:
		return fmt.Sprintf("is not divided: it runs as a whole on %s", on[0])
	case len(waits) > 0:
		return fmt.Sprintf("is not divided: it runs as a whole on %s, once it has ended elsewhere", strings.Join(waits, ", "))
	}
	return ""
}

func anyRange(targets placementv1alpha1.Targets) bool {
	return slices.ContainsFunc(targets.Names(), func(name string) bool { _, ok := stamp.RangeOf(targets[name]); return ok })
}

func dividedOver(division *placementv1alpha1.DecidedDivision) string {
	names := make([]string, 0, len(division.Targets))
	for _, t := range division.Targets {
		names = append(names, t.PhysicalCluster)
	}
	return strings.Join(slices.Compact(names), ", ")
}

func replicas(t placementv1alpha1.Target) int32 { return ptr.Deref(t.Replicas, 0) }

func shareOf(t placementv1alpha1.Target) int32 { return ptr.Deref(t.Share, replicas(t)) }

func sum(targets placementv1alpha1.Targets, of func(placementv1alpha1.Target) int32) (n int64) {
	for _, t := range targets {
		if t.Keeps() {
			n += int64(of(t))
		}
	}
	return n
}
