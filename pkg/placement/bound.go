package placement

import (
	"fmt"
	"slices"
	"strings"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

// foreign reports whether another scheduler decides. A pin leaves nothing to decide: it is
// done here, and is the way out if that scheduler does not answer.
func (r *rules) foreign() bool {
	return r.scheduler != "" && r.scheduler != placementv1alpha1.DefaultScheduler && r.unit.Pin == ""
}

// wanted is what the other scheduler wants: what it bound last, else that what is there
// stays.
func (r *rules) wanted() []string {
	if r.unit.BoundBy == r.scheduler && len(r.unit.Bound) > 0 {
		return sorted(slices.Clone(r.unit.Bound))
	}
	return sorted(slices.Clone(r.unit.Decided))
}

// follow decides as another scheduler has it, and nothing if the rules do not permit that.
//
//	wanted            all of it fits, see filter  and has the shape  then
//	nothing           any                         any                nothing: it has to be bound
//	something         no                          any                nothing: Unmet says which
//	something         yes                         no                 nothing: Unmet says what is wanted
//	something         yes                         yes                that
//
// If no policy says how many, it is as many as are bound; maxCount holds in any case.
func (r *rules) follow(from []PhysicalCluster, d Decision) Decision {
	candidates, rejected := r.filter(from)
	ranked := bestOf(candidates, len(candidates))
	d.Scheduler, d.Rejected, d.Until = r.scheduler, given(rejected), r.stay.until
	for _, c := range ranked {
		d.Permitted = append(d.Permitted, c.name)
	}
	d.Refuse = d.Refuse && len(ranked) == 0
	want := r.wanted()
	if len(want) == 0 {
		return d
	}
	var fit []*candidate
	for _, name := range want {
		if i := slices.IndexFunc(ranked, func(c *candidate) bool { return c.name == name }); i >= 0 {
			fit = append(fit, ranked[i])
			continue
		}
		d.Unmet = fmt.Sprintf("there is no physical cluster %s", name)
		if i := slices.IndexFunc(d.Rejected, func(no Rejection) bool { return no.PhysicalCluster == name }); i >= 0 {
			d.Unmet = name + ": " + d.Rejected[i].Message()
		}
		return d
	}
	if !r.shaped {
		r.shape = shape{count: len(want), least: len(want)}
	}
	d.Wanted = r.shape.String()
	slices.SortFunc(fit, better)
	chosen := r.shape.choose(fit)
	switch {
	case len(chosen) < len(want):
		d.Unmet = fmt.Sprintf("%s is wanted, which %s is not", d.Wanted, strings.Join(want, ", "))
	case r.most > 0 && len(want) > r.most:
		d.Excess = r.excess(len(want))
		d.Unmet = d.Excess
	default:
		d.PhysicalClusters = want
	}
	return d
}

func (r *rules) excess(n int) string {
	return fmt.Sprintf("%d physical clusters are wanted, and %s permits no more than %d", n, r.limits, r.most)
}

// awaited is the message of a decision that another scheduler has to make.
func (d Decision) awaited() string {
	permitted := "no physical cluster is permitted"
	if len(d.Permitted) > 0 {
		names := d.Permitted[:min(len(d.Permitted), maxExplained)]
		permitted = "permitted are " + strings.Join(names, ", ")
		if more := len(d.Permitted) - len(names); more > 0 {
			permitted += fmt.Sprintf(" and %d more", more)
		}
	}
	if d.Unmet != "" {
		return fmt.Sprintf("scheduler %s has to bind it elsewhere: %s; %s", d.Scheduler, d.Unmet, permitted)
	}
	return fmt.Sprintf("scheduler %s decides, and has not bound it yet; %s", d.Scheduler, permitted)
}

// BoundOf is what a scheduler has bound the unit of a placement to, and who.
func BoundOf(p *placementv1alpha1.Placement) (physicalClusters []string, by string) {
	if p.Spec.Bound == nil {
		return nil, ""
	}
	return p.Spec.Bound.PhysicalClusters, p.Spec.Bound.SchedulerName
}
