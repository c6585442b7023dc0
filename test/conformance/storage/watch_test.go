package storage_test

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
	storagetesting "k8s.io/apiserver/pkg/storage/testing"
)

func TestWatch(t *testing.T) {
	each(t, all, nil, func(t *testing.T, f *fixture) {
		storagetesting.RunTestWatch(t.Context(), t, f)
	})
}

func TestWatchFromZero(t *testing.T) {
	each(t, all, nil, func(t *testing.T, f *fixture) {
		compact := f.compact
		if f.variant != uncached {
			compact = nil // nobody can make a watch cache forget its history
		}
		storagetesting.RunTestWatchFromZero(t.Context(), t, f, compact)
	})
}

func TestDeleteTriggerWatch(t *testing.T) {
	each(t, all, nil, func(t *testing.T, f *fixture) {
		storagetesting.RunTestDeleteTriggerWatch(t.Context(), t, f)
	})
}

func TestWatchFromNonZero(t *testing.T) {
	each(t, all, nil, func(t *testing.T, f *fixture) {
		storagetesting.RunTestWatchFromNonZero(t.Context(), t, f)
	})
}

func TestDelayedWatchDelivery(t *testing.T) {
	each(t, all, nil, func(t *testing.T, f *fixture) {
		storagetesting.RunTestDelayedWatchDelivery(t.Context(), t, f)
	})
}

func TestWatchError(t *testing.T) {
	each(t, []variant{uncached}, nil, func(t *testing.T, f *fixture) {
		storagetesting.RunTestWatchError(t.Context(), t, f)
	})
}

func TestWatchContextCancel(t *testing.T) {
	each(t, []variant{uncached}, nil, func(t *testing.T, f *fixture) {
		storagetesting.RunTestWatchContextCancel(t.Context(), t, f)
	})
}

func TestWatcherTimeout(t *testing.T) {
	each(t, all, nil, func(t *testing.T, f *fixture) {
		storagetesting.RunTestWatcherTimeout(t.Context(), t, f)
	})
}

func TestWatchDeleteEventObjectHaveLatestRV(t *testing.T) {
	each(t, all, nil, func(t *testing.T, f *fixture) {
		storagetesting.RunTestWatchDeleteEventObjectHaveLatestRV(t.Context(), t, f)
	})
}

func TestWatchInitializationSignal(t *testing.T) {
	each(t, all, nil, func(t *testing.T, f *fixture) {
		storagetesting.RunTestWatchInitializationSignal(t.Context(), t, f)
	})
}

func TestProgressNotify(t *testing.T) {
	each(t, []variant{uncached}, func(s *setup) { s.progress = time.Second }, func(t *testing.T, f *fixture) {
		storagetesting.RunOptionalTestProgressNotify(t.Context(), t, f, f.increaseVersion)
	})
}

func TestClusterScopedWatch(t *testing.T) {
	clusterScoped := func(s *setup) {
		podIndexers(s)
		s.keyFunc = func(obj runtime.Object) (string, error) { return storage.NoNamespaceKeyFunc(prefix, obj) }
	}
	each(t, all, clusterScoped, func(t *testing.T, f *fixture) {
		storagetesting.RunTestClusterScopedWatch(t.Context(), t, f)
	})
}

func TestNamespaceScopedWatch(t *testing.T) {
	each(t, all, podIndexers, func(t *testing.T, f *fixture) {
		storagetesting.RunTestNamespaceScopedWatch(t.Context(), t, f)
	})
}

func TestWatchDispatchBookmarkEvents(t *testing.T) {
	each(t, all, func(s *setup) { s.progress = time.Second }, func(t *testing.T, f *fixture) {
		storagetesting.RunTestWatchDispatchBookmarkEvents(t.Context(), t, f, f.variant == cached)
	})
}

func TestWatchBookmarksWithCorrectResourceVersion(t *testing.T) {
	each(t, []variant{cached}, nil, func(t *testing.T, f *fixture) {
		storagetesting.RunTestOptionalWatchBookmarksWithCorrectResourceVersion(t.Context(), t, f)
	})
}

func TestSendInitialEventsBackwardCompatibility(t *testing.T) {
	serially(t, all, func(t *testing.T, f *fixture) {
		storagetesting.RunSendInitialEventsBackwardCompatibility(t.Context(), t, f)
	})
}

func TestWatchSemantics(t *testing.T) {
	serially(t, all, func(t *testing.T, f *fixture) {
		storagetesting.RunWatchSemantics(t.Context(), t, observed(f))
	})
}

func TestWatchSemanticInitialEventsExtended(t *testing.T) {
	serially(t, all, func(t *testing.T, f *fixture) {
		storagetesting.RunWatchSemanticInitialEventsExtended(t.Context(), t, observed(f))
	})
}

func TestWatchListMatchSingle(t *testing.T) {
	serially(t, all, func(t *testing.T, f *fixture) {
		storagetesting.RunWatchListMatchSingle(t.Context(), t, observed(f))
	})
}

func TestWatchErrorIsBlockingFurtherEvents(t *testing.T) {
	each(t, []variant{uncached}, nil, func(t *testing.T, f *fixture) {
		storagetesting.RunWatchErrorIsBlockingFurtherEvents(t.Context(), t, f)
	})
}
