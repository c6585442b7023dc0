package storage

import (
	"testing"

	"k8s.io/client-go/util/watchlist"
)

func TestTheReflectorOfAWatchCacheMayNotStreamItsList(t *testing.T) {
	t.Parallel()
	if !watchlist.DoesClientNotSupportWatchListSemantics(&beginning{}) {
		t.Error("client-go no longer asks the storage the way that beginning answers")
	}
}
