package storage_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/features"
	"k8s.io/apiserver/pkg/storage/etcd3"
	storagetesting "k8s.io/apiserver/pkg/storage/testing"
	"k8s.io/apiserver/pkg/storage/value"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
)

// The tests of this file change feature gates of the process: they are not
// parallel.

// fragile is a codec, or a transformer, that fails on demand.
type fragile struct {
	runtime.Codec
	value.Transformer
	fails atomic.Bool
}

func (f *fragile) fail(on bool) { f.fails.Store(on) }

func (f *fragile) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	if f.fails.Load() {
		return nil, nil, errors.New("no object")
	}
	return f.Codec.Decode(data, defaults, into)
}

func (f *fragile) TransformFromStorage(ctx context.Context, data []byte, c value.Context) ([]byte, bool, error) {
	if f.fails.Load() {
		return nil, false, errors.New("bits flipped")
	}
	return f.Transformer.TransformFromStorage(ctx, data, c)
}

func TestDeletionOfCorruptObjects(t *testing.T) {
	featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.AllowUnsafeMalformedObjectDeletion, true)
	etcd3.TestOnlySetFatalOnDecodeError(t, false)
	for _, v := range all {
		t.Run(v.name, func(t *testing.T) {
			t.Run("IntactAfterAll", func(t *testing.T) {
				f, broken := newFragile(t, v)
				storagetesting.RunTestDeleteWithConflictAndMissingExpectedTransformOrDecodeError(t.Context(), t, f, broken.fail)
			})
			t.Run("Corrupt", func(t *testing.T) {
				f, broken := newFragile(t, v)
				storagetesting.RunTestDeleteExpectedTransformOrDecodeError(t.Context(), t, f, broken.fail)
			})
			t.Run("Undecodable", func(t *testing.T) {
				broken := &fragile{Codec: codec}
				f := newFixture(t, v, func(s *setup) { s.codec, s.corrupt = broken, true })
				storagetesting.RunTestDeleteExpectedTransformOrDecodeError(t.Context(), t, f, broken.fail)
			})
			t.Run("Intact", func(t *testing.T) {
				f, _ := newFragile(t, v)
				storagetesting.RunTestDeleteWithSuggestionAndMissingExpectedTransformOrDecodeError(t.Context(), t, f)
			})
		})
	}
	t.Run("WatchSeesIt", func(t *testing.T) {
		f := newFixture(t, uncached, func(s *setup) { s.corrupt = true })
		storagetesting.RunTestWatchWithUnsafeDelete(t.Context(), t, f, errors.New("bits flipped"))
	})
}

// newFragile makes a fixture whose transformer fails on demand.
func newFragile(t *testing.T, v variant) (*fixture, *fragile) {
	f := newFixture(t, v, func(s *setup) { s.corrupt = true })
	broken := &fragile{Transformer: f.transformer.get()}
	f.transformer.set(broken)
	return f, broken
}
