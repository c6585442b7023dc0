package storage_test

import (
	"testing"

	"k8s.io/apiserver/pkg/apis/example"
	upstream "k8s.io/apiserver/pkg/storage"

	"github.com/atoll-dev/atoll/pkg/apiserver/storage"
)

func TestARequestKnowsWhetherItRemovedAnObject(t *testing.T) {
	t.Parallel()
	f := newStore(t, nil)
	remove := func(name string) (bool, error) {
		ctx := storage.WithRemoved(in(t, "a"))
		err := f.Delete(ctx, key("ns", name), &example.Pod{}, nil, upstream.ValidateAllObjectFunc, nil, upstream.DeleteOptions{})
		return storage.Removed(ctx), err
	}
	f.create(in(t, "a"), t, pod("web"))
	if removed, err := remove("web"); !removed || err != nil {
		t.Errorf("removed %v, error %v", removed, err)
	}
	if removed, err := remove("web"); removed || !upstream.IsNotFound(err) {
		t.Errorf("removed %v, error %v of what is not there", removed, err)
	}
	if storage.Removed(in(t, "a")) {
		t.Error("a request that nobody asked says that it removed something")
	}
}
