package storage_test

import (
	"testing"

	"k8s.io/apiserver/pkg/features"
	storagetesting "k8s.io/apiserver/pkg/storage/testing"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
)

func TestCreate(t *testing.T) {
	each(t, all, nil, func(t *testing.T, f *fixture) {
		storagetesting.RunTestCreate(t.Context(), t, f, f.stored)
	})
}

func TestCreateWithTTL(t *testing.T) {
	each(t, all, nil, func(t *testing.T, f *fixture) {
		storagetesting.RunTestCreateWithTTL(t.Context(), t, f)
	})
}

func TestCreateWithKeyExist(t *testing.T) {
	each(t, all, nil, func(t *testing.T, f *fixture) {
		storagetesting.RunTestCreateWithKeyExist(t.Context(), t, f)
	})
}

func TestGet(t *testing.T) {
	serially(t, all, func(t *testing.T, f *fixture) { // its object lives for a second
		storagetesting.RunTestGet(t.Context(), t, bare(f))
	})
}

func TestKeySchema(t *testing.T) {
	each(t, all, nil, func(t *testing.T, f *fixture) {
		storagetesting.RunTestKeySchema(t.Context(), t, f)
	})
}

func TestUnconditionalDelete(t *testing.T) {
	each(t, all, nil, func(t *testing.T, f *fixture) {
		storagetesting.RunTestUnconditionalDelete(t.Context(), t, f)
	})
}

func TestConditionalDelete(t *testing.T) {
	each(t, all, nil, func(t *testing.T, f *fixture) {
		storagetesting.RunTestConditionalDelete(t.Context(), t, f)
	})
}

func TestDeleteWithSuggestion(t *testing.T) {
	each(t, all, nil, func(t *testing.T, f *fixture) {
		storagetesting.RunTestDeleteWithSuggestion(t.Context(), t, f)
	})
}

func TestDeleteWithSuggestionAndConflict(t *testing.T) {
	each(t, all, nil, func(t *testing.T, f *fixture) {
		storagetesting.RunTestDeleteWithSuggestionAndConflict(t.Context(), t, f)
	})
}

func TestDeleteWithConflict(t *testing.T) {
	each(t, all, nil, func(t *testing.T, f *fixture) {
		storagetesting.RunTestDeleteWithConflict(t.Context(), t, f)
	})
}

func TestDeleteWithSuggestionOfDeletedObject(t *testing.T) {
	each(t, all, nil, func(t *testing.T, f *fixture) {
		storagetesting.RunTestDeleteWithSuggestionOfDeletedObject(t.Context(), t, f)
	})
}

func TestValidateDeletionWithSuggestion(t *testing.T) {
	each(t, all, nil, func(t *testing.T, f *fixture) {
		storagetesting.RunTestValidateDeletionWithSuggestion(t.Context(), t, f)
	})
}

func TestValidateDeletionWithOnlySuggestionValid(t *testing.T) {
	each(t, all, nil, func(t *testing.T, f *fixture) {
		storagetesting.RunTestValidateDeletionWithOnlySuggestionValid(t.Context(), t, f)
	})
}

func TestPreconditionalDeleteWithSuggestion(t *testing.T) {
	each(t, all, nil, func(t *testing.T, f *fixture) {
		storagetesting.RunTestPreconditionalDeleteWithSuggestion(t.Context(), t, f)
	})
}

func TestPreconditionalDeleteWithOnlySuggestionPass(t *testing.T) {
	each(t, all, nil, func(t *testing.T, f *fixture) {
		storagetesting.RunTestPreconditionalDeleteWithOnlySuggestionPass(t.Context(), t, f)
	})
}

func TestGuaranteedUpdate(t *testing.T) {
	each(t, []variant{uncached}, nil, func(t *testing.T, f *fixture) {
		storagetesting.RunTestGuaranteedUpdate(t.Context(), t, bare(f), f.stored)
	})
}

func TestGuaranteedUpdateWithTTL(t *testing.T) {
	each(t, all, nil, func(t *testing.T, f *fixture) {
		storagetesting.RunTestGuaranteedUpdateWithTTL(t.Context(), t, f)
	})
}

func TestGuaranteedUpdateChecksStoredData(t *testing.T) {
	each(t, []variant{uncached}, nil, func(t *testing.T, f *fixture) {
		storagetesting.RunTestGuaranteedUpdateChecksStoredData(t.Context(), t, f)
	})
}

func TestGuaranteedUpdateWithConflict(t *testing.T) {
	each(t, all, nil, func(t *testing.T, f *fixture) {
		storagetesting.RunTestGuaranteedUpdateWithConflict(t.Context(), t, f)
	})
}

func TestGuaranteedUpdateWithSuggestionAndConflict(t *testing.T) {
	each(t, all, nil, func(t *testing.T, f *fixture) {
		storagetesting.RunTestGuaranteedUpdateWithSuggestionAndConflict(t.Context(), t, f)
	})
}

func TestTransformationFailure(t *testing.T) {
	each(t, []variant{uncached}, nil, func(t *testing.T, f *fixture) {
		storagetesting.RunTestTransformationFailure(t.Context(), t, f)
	})
}

func TestStats(t *testing.T) {
	each(t, all, nil, func(t *testing.T, f *fixture) {
		storagetesting.RunTestStats(t.Context(), t, f, codec, f.transformer.get(),
			utilfeature.DefaultFeatureGate.Enabled(features.SizeBasedListCostEstimate) && f.variant != uncached)
	})
}

func TestCompactRevision(t *testing.T) {
	each(t, all, nil, func(t *testing.T, f *fixture) {
		storagetesting.RunTestCompactRevision(t.Context(), t, f, f.increaseVersion, f.compact)
	})
}
