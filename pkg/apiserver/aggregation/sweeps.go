package aggregation

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
)

const (
	// maxSweeps is how many namespaces of a logical cluster are swept at a time; the
	// others wait in line.
	maxSweeps = 4
	// maxCrowd is how many APIServices of a logical cluster are looked through for
	// each namespace; it is more than are ever available.
	maxCrowd = 4 * maxServices
	// sweptTTL is how long what a sweep saw may be acted on.
	sweptTTL = 5 * time.Second
)

// sweeps are the sweeps of the namespaces of one logical cluster.
type sweeps struct {
	running int
	line    []string
	of      map[string]*sweeping
}

// sweeping is the sweep of one namespace: it waits until it has begun, and runs until
// it has ended.
type sweeping struct {
	uid types.UID
	run func()
	// covers says what versions it is about.
	covers string
	begun  bool
	ended  time.Time
	swept
}

// Notify has f called when a sweep of a namespace has ended, or, with an empty
// namespace, when other versions are available than before: what was held may go.
func (a *Aggregation) Notify(f func(c logicalcluster.Name, namespace string)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.listener = f
}

func (a *Aggregation) notify(c logicalcluster.Name, namespace string) {
	a.mu.Lock()
	f := a.listener
	a.mu.Unlock()
	if f != nil {
		f(c, namespace)
	}
}

// Has says whether a logical cluster has versions that servers of its own serve.
func (a *Aggregation) Has(c logicalcluster.Name) bool { return a.informer.HasCluster(c) }

// Unknown fails with what upstream's discovery does if it is not known what the
// servers of some versions keep.
func (a *Aggregation) Unknown(c logicalcluster.Name) error {
	_, _, unknown := a.available(c)
	return unknown
}

// available are the versions of a logical cluster whose servers may keep something
// in namespaces, and a key of them; unknown is about the others. Of a crowd, which
// holds all namespaces anyway, there are none.
func (a *Aggregation) available(c logicalcluster.Name) (out []version, key string, unknown error) {
	if n := a.informer.CountCluster(c); n > maxCrowd {
		return nil, "", fmt.Errorf("there are %d APIServices that name a Service, and %d are served", n, maxServices)
	}
	groups := map[schema.GroupVersion]error{}
	var covers strings.Builder
	for _, s := range a.list(c) {
		known, gv := a.state(s), schema.GroupVersion{Group: s.Spec.Group, Version: s.Spec.Version}
		if known == nil || !known.fresh || len(known.hosts) == 0 {
			if len(groups) < maxReported {
				groups[gv] = fmt.Errorf("stale GroupVersion discovery: %s", gv)
			}
			continue
		}
		if targets := targets(gv, known.resources); len(targets) > 0 {
			out = append(out, version{service: s, hosts: known.hosts, targets: targets})
			fmt.Fprintf(&covers, "%s/%s ", s.UID, known.digest)
		}
	}
	if len(groups) > 0 {
		unknown = &discovery.ErrGroupDiscoveryFailed{Groups: groups}
	}
	return out, covers.String(), unknown
}

// Sweep has the available servers of a logical cluster delete what they keep in a
// namespace that is being deleted, and says what was left then and what failed, and of
// whom it is not known. It waits for none: done says that it has been done since it
// was last asked for, just now. Whoever asks hears of it, and asks again, or forgets it.
func (a *Aggregation) Sweep(ctx context.Context, c logicalcluster.Name, namespace string, uid types.UID) (
	left map[schema.GroupVersionResource][]metav1.PartialObjectMetadata, failed map[schema.GroupVersionResource]error, unknown error, done bool,
) {
	versions, covers, unknown := a.available(c)
	a.mu.Lock()
	defer a.mu.Unlock()
	all := a.sweeps[c]
	if len(versions) == 0 && (all == nil || all.of[namespace] == nil) {
		return nil, nil, unknown, true
	}
	if all == nil {
		all = &sweeps{of: map[string]*sweeping{}}
		a.sweeps[c] = all
	}
	if s := all.of[namespace]; s != nil {
		if s.begun && s.ended.IsZero() {
			return nil, nil, nil, false
		}
		if s.begun {
			delete(all.of, namespace)
			if s.uid == uid && s.covers == covers && time.Since(s.ended) < sweptTTL {
				a.tidy(c)
				return s.left, s.failed, unknown, true
			}
		}
	}
	if s := all.of[namespace]; s == nil {
		all.line = append(all.line, namespace)
	}
	s := &sweeping{uid: uid}
	s.run = func() { a.run(ctx, c, namespace, s) }
	all.of[namespace] = s
	if !a.stopped && all.running < maxSweeps {
		all.running++
		a.checks.Go(func() { a.work(c) })
	}
	return nil, nil, nil, false
}

// Forget drops what is known of a namespace that nobody asks for any more.
func (a *Aggregation) Forget(c logicalcluster.Name, namespace string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if all := a.sweeps[c]; all != nil {
		delete(all.of, namespace)
		a.tidy(c)
	}
}

// tidy keeps nothing of a logical cluster in which nothing is to be done.
func (a *Aggregation) tidy(c logicalcluster.Name) {
	if all := a.sweeps[c]; all.running == 0 && len(all.of) == 0 {
		delete(a.sweeps, c)
	}
}

// work sweeps until nothing waits.
func (a *Aggregation) work(c logicalcluster.Name) {
	for {
		next := a.next(c)
		if next == nil {
			return
		}
		next.run()
	}
}

func (a *Aggregation) next(c logicalcluster.Name) *sweeping {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := a.sweeps[c]
	for len(all.line) > 0 && !a.stopped {
		next := all.of[all.line[0]]
		all.line = all.line[1:]
		if next != nil && !next.begun {
			next.begun = true
			return next
		}
	}
	all.running--
	a.tidy(c)
	return nil
}

func (a *Aggregation) run(ctx context.Context, c logicalcluster.Name, namespace string, s *sweeping) {
	versions, covers, _ := a.available(c)
	saw := a.sweep(ctx, versions, namespace, s.uid)
	a.mu.Lock()
	s.covers, s.swept, s.ended, s.run = covers, saw, time.Now(), nil
	a.mu.Unlock()
	a.notify(c, namespace)
}
