package controller

import (
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

var (
	wentBackTotal = metrics.NewCounter(&metrics.CounterOpts{
		Name:           "atoll_servers_went_back_total",
		Help:           "How often an API server that is watched went back in time, as after a backup was restored.",
		StabilityLevel: metrics.ALPHA,
	})
	missedChanges = metrics.NewCounterVec(&metrics.CounterOpts{
		Name:           "atoll_informer_missed_changes_total",
		Help:           "Objects that a comparison with a list found to be missing, extra or different in an informer, which no watch reported.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"difference"})

	// registerMetrics: metrics are of the process.
	registerMetrics = sync.OnceFunc(func() { legacyregistry.MustRegister(wentBackTotal, missedChanges) })
)
