package imports

import (
	"maps"
	"slices"
	"sync"

	"github.com/kcp-dev/logicalcluster/v3"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

// presence counts the namespaces of logical clusters on physical clusters, as they come and
// go: each change of a pod asks for it.
type presence struct {
	mu     sync.Mutex
	counts map[logicalcluster.Name]map[string]int
}

// move counts a namespace where it is now, no more where it was before. changed says that the
// logical cluster is on others than before.
func (p *presence) move(cluster logicalcluster.Name, before, now placementv1alpha1.Targets) (changed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	counts := p.counts[cluster]
	if counts == nil {
		counts = map[string]int{}
	}
	was := slices.Collect(maps.Keys(counts))
	for name, target := range now {
		if isThere(target) {
			counts[name]++
		}
	}
	for name, target := range before {
		if isThere(target) {
			if counts[name]--; counts[name] <= 0 {
				delete(counts, name)
			}
		}
	}
	if p.counts[cluster] = counts; len(counts) == 0 {
		delete(p.counts, cluster)
	}
	return len(was) != len(counts) || slices.ContainsFunc(was, func(name string) bool { return counts[name] == 0 })
}

func isThere(target placementv1alpha1.Target) bool {
	return target.Keeps() || target.State == placementv1alpha1.TargetStateRemoving
}

// of are the physical clusters on which a logical cluster is, sorted.
func (p *presence) of(cluster logicalcluster.Name) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Sorted(maps.Keys(p.counts[cluster]))
}
