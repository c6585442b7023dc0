package main

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

// decisionsPart measures how many decisions a second a server makes, by reviews that store nothing:
// what is left of a request is its way through the server and what the decision reads. A previous
// build takes part in blocks of its own between those of this one.
func decisionsPart(ctx context.Context, l *lab, o options) error {
	builds := []build{{name: "now", bin: l.bin}}
	if o.previous != "" {
		builds = []build{{name: "previous", bin: o.previous}, builds[0]}
	}
	placers := make([]*placer, len(builds))
	for i, b := range builds {
		mine := &lab{dir: l.dir, bin: b.bin}
		defer mine.stop()
		var err error
		if placers[i], err = newPlacer(ctx, mine, b.name); err != nil {
			return err
		}
		if err := placers[i].prepareReviews(ctx); err != nil {
			return err
		}
		if err := placers[i].fill(ctx, o.fleets[0], o.units); err != nil {
			return err
		}
	}
	t := newTable("decisions by PlacementReview", "physical clusters", "build", "a second", "ratio", "CPU ms each", "ratio")
	for _, size := range o.fleets {
		for _, p := range placers {
			if err := p.register(ctx, size); err != nil {
				return err
			}
		}
		for _, atOnce := range []int{1, fillers} {
			results := make([]series, len(placers))
			if o.profiles != "" {
				if err := placers[len(placers)-1].profileDecisions(ctx, o, size, atOnce); err != nil {
					return err
				}
			}
			for round := range o.rounds + 1 {
				for i, p := range placers {
					took, err := p.decide(ctx, o.placed, atOnce)
					if err != nil {
						return err
					}
					if round > 0 { // the first one fills caches
						results[i] = append(results[i], took)
					}
				}
			}
			for i, s := range results {
				row := []string{fmt.Sprintf("%d at a time", atOnce), fmt.Sprint(size), builds[i].name, fmt.Sprintf("%.0f", float64(time.Second)/float64(s.p50())), "", ms(s.cpu()), ""}
				if i > 0 {
					row[4], row[6] = times(1/s.ratio(results[0], block.p50)), times(s.ratio(results[0], block.cpuPerOperation))
				}
				t.add(row...)
			}
		}
	}
	t.print()
	if o.units == 0 {
		return nil
	}
	t = newTable("all physical clusters fall silent", "units", "build", "seconds until all are said to be", "CPU s", "decisions meanwhile, p50 ms", "p99 ms")
	for i, p := range placers {
		row, err := p.silence(ctx)
		if err != nil {
			return err
		}
		t.add(append([]string{fmt.Sprint(p.clusters), fmt.Sprint(o.units), builds[i].name}, row...)...)
	}
	t.print()
	return nil
}

const reviewedNamespace = "reviewed"

func (p *placer) prepareReviews(ctx context.Context) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: reviewedNamespace}}
	if _, err := p.kube.CoreV1().Namespaces().Create(inCluster(ctx, benchCluster), namespace, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating namespace %s: %w", reviewedNamespace, err)
	}
	return nil
}

// profileDecisions has decisions made for a while, and profiles the server.
func (p *placer) profileDecisions(ctx context.Context, o options, size, atOnce int) error {
	const while = 5 * time.Second
	stop := p.profileCPU(ctx, o.profiles, fmt.Sprintf("decisions-%d-%d.cpu.pb.gz", size, atOnce), while)
	for end := time.Now().Add(while); time.Now().Before(end); {
		if _, err := p.decide(ctx, o.placed, atOnce); err != nil {
			return err
		}
	}
	return stop()
}

// decide has some decisions made, several at a time. The latencies of the block are one: the time that
// all took, for each.
func (p *placer) decide(ctx context.Context, n, atOnce int) (block, error) {
	g, inside := errgroup.WithContext(inCluster(ctx, benchCluster))
	g.SetLimit(atOnce)
	cpu, err := cpuTime(p.PID())
	if err != nil {
		return block{}, err
	}
	began := time.Now()
	for range n {
		g.Go(func() error {
			review := &placementv1alpha1.PlacementReview{Spec: placementv1alpha1.PlacementReviewSpec{Anew: true}}
			if _, err := p.own.PlacementV1alpha1().PlacementReviews(reviewedNamespace).Create(inside, review, metav1.CreateOptions{}); err != nil {
				return fmt.Errorf("asking where something would go: %w", err)
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return block{}, err //nolint:wrapcheck // it says what it asked
	}
	each := time.Since(began) / time.Duration(n)
	now, err := cpuTime(p.PID())
	return block{latencies: []time.Duration{each}, cpu: (now - cpu) / time.Duration(n)}, err
}
