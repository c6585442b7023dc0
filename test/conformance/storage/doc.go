// Package storage runs upstream's test suite of storage implementations
// (k8s.io/apiserver/pkg/storage/testing) over pkg/apiserver/storage, on a real
// etcd, in the three ways in which a logical cluster is served: from the watch
// cache, without one (events), and as the view of a physical cluster that every
// object is visible to. A registry cannot tell any of them from the stock store:
// that is the claim.
//
// Tests of the suite that are not run, or not in every way:
//
//   - RunTestGetListWithErrorAggregation, RunTestGetListWithoutErrorAggregation
//     compare keys of etcd in the text of errors; ours contain the logical cluster.
//   - RunTestList not in a view: it expects remainingItemCount, which no list
//     with a selector has, and a view is a selection.
//   - RunTestGuaranteedUpdate, RunTestGuaranteedUpdateChecksStoredData,
//     RunTestTransformationFailure, RunTestListResourceVersionMatch,
//     RunTestListInconsistentContinuation, RunTestWatchError,
//     RunTestWatchContextCancel, RunTestWatchWithUnsafeDelete,
//     RunOptionalTestProgressNotify, RunWatchErrorIsBlockingFurtherEvents only
//     without a watch cache: upstream does not run them over one, either; they
//     look at what etcd does.
//   - RunTestWatchFromZero without its last part where there is a watch cache:
//     nobody outside can make that forget its history.
//   - RunTestOptionalWatchBookmarksWithCorrectResourceVersion and the bookmarks
//     of RunTestWatchDispatchBookmarkEvents only over the watch cache: a view
//     sends the bookmark after the initial events at once and others once a
//     minute.
//   - The counts of calls to etcd in RunTestListContinuation,
//     RunTestListContinuationWithFilter and RunTestListPaginationRareObject are
//     those of the store below and not checked.
//   - The benchmarks (RunBenchmark...) measure; they prove nothing.
package storage
