package storage_test

import (
	"testing"

	storagetesting "k8s.io/apiserver/pkg/storage/testing"
)

func TestList(t *testing.T) {
	// It counts requests to etcd, of which our consistent lists make other ones;
	// what they answer is the matter of the other tests.
	stock := func(s *setup) { s.stockLists = true }
	each(t, []variant{cached, uncached}, stock, func(t *testing.T, f *fixture) {
		recorder := f.client.Kubernetes.(unsegment).Interface.(*storagetesting.KubernetesRecorder)
		storagetesting.RunTestList(t.Context(), t, f, f.compact, f.variant != uncached, recorder)
	})
}

func TestConsistentList(t *testing.T) {
	each(t, all, nil, func(t *testing.T, f *fixture) {
		storagetesting.RunTestConsistentList(t.Context(), t, f, f.increaseVersion, f.variant != uncached, true, f.variant != uncached)
	})
}

func TestListPaging(t *testing.T) {
	each(t, all, nil, func(t *testing.T, f *fixture) {
		storagetesting.RunTestListPaging(t.Context(), t, f)
	})
}

func TestGetListNonRecursive(t *testing.T) {
	each(t, all, nil, func(t *testing.T, f *fixture) {
		storagetesting.RunTestGetListNonRecursive(t.Context(), t, f.increaseVersion, f)
	})
}

func TestGetListRecursivePrefix(t *testing.T) {
	each(t, all, nil, func(t *testing.T, f *fixture) {
		storagetesting.RunTestGetListRecursivePrefix(t.Context(), t, f)
	})
}

func TestNamespaceScopedList(t *testing.T) {
	each(t, all, podIndexers, func(t *testing.T, f *fixture) {
		storagetesting.RunTestNamespaceScopedList(t.Context(), t, bare(f))
	})
}

func TestListContinuation(t *testing.T) {
	each(t, all, nil, func(t *testing.T, f *fixture) {
		storagetesting.RunTestListContinuation(t.Context(), t, f, unchecked)
	})
}

func TestListPaginationRareObject(t *testing.T) {
	each(t, all, nil, func(t *testing.T, f *fixture) {
		storagetesting.RunTestListPaginationRareObject(t.Context(), t, f, unchecked)
	})
}

func TestListContinuationWithFilter(t *testing.T) {
	each(t, all, nil, func(t *testing.T, f *fixture) {
		storagetesting.RunTestListContinuationWithFilter(t.Context(), t, f, unchecked)
	})
}

func TestListInconsistentContinuation(t *testing.T) {
	each(t, []variant{uncached}, nil, func(t *testing.T, f *fixture) {
		storagetesting.RunTestListInconsistentContinuation(t.Context(), t, f, f.compact)
	})
}

func TestListResourceVersionMatch(t *testing.T) {
	each(t, []variant{uncached}, nil, func(t *testing.T, f *fixture) {
		storagetesting.RunTestListResourceVersionMatch(t.Context(), t, f)
	})
}
