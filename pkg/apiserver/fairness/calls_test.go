package fairness

import (
	"context"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/atoll-dev/atoll/pkg/apiserver/auth"
)

func TestALogicalClusterHasABoundedNumberOfWebhookCallsInFlight(t *testing.T) {
	t.Parallel()
	slots := testLimiter(100, 10)
	begun := func(cluster string, who user.Info) context.Context {
		t.Helper()
		ctx := asked(t, slots, cluster, true)
		end, ok := begin(ctx, who)
		if !ok {
			t.Fatal("no slot is free")
		}
		t.Cleanup(end)
		return ctx
	}
	ann := &user.DefaultInfo{Name: "ann", Groups: []string{user.AllAuthenticated}}
	admin := &user.DefaultInfo{Name: "admin", Groups: []string{user.SystemPrivilegedGroup}}
	var backs []func()
	for range maxCalls {
		back, err := Call(begun("shop", ann))
		if err != nil {
			t.Fatal(err)
		}
		backs = append(backs, back)
	}
	if _, err := Call(begun("shop", ann)); err == nil || !strings.Contains(err.Error(), `logical cluster "shop" has 64 calls`) {
		t.Errorf("one more: %v", err)
	}
	for who, ctx := range map[string]context.Context{"a neighbour": begun("web", ann), "an admin": begun("shop", admin)} {
		back, err := Call(ctx)
		if err != nil {
			t.Errorf("%s: %v", who, err)
			continue
		}
		back()
	}
	backs[0]()
	backs[0]() // twice is once
	back, err := Call(begun("shop", ann))
	if err != nil {
		t.Errorf("after one came back: %v", err)
	} else {
		back()
	}
	for _, back := range backs[1:] {
		back()
	}
	if len(slots.calls) != 0 {
		t.Errorf("calls are left: %v", slots.calls)
	}
}

// A syncer needs no slot, and asks the webhooks of tenants about pods: those that never answer
// take no more places than those that users ask, and it takes none from these.
func TestWhatASyncerAsksIsCountedForItAndTheLogicalCluster(t *testing.T) {
	t.Parallel()
	slots := testLimiter(100, 10)
	call := func(cluster string, who user.Info) error {
		t.Helper()
		ctx := asked(t, slots, cluster, true)
		end, ok := begin(ctx, who)
		if !ok {
			t.Fatal("no slot is free")
		}
		t.Cleanup(end)
		_, err := Call(ctx)
		return err
	}
	syncer := func(name string) user.Info {
		return &user.DefaultInfo{Name: auth.SyncerUser(name), Groups: []string{auth.SyncersGroup, user.AllAuthenticated}}
	}
	for range maxCalls {
		if err := call("shop", syncer("east")); err != nil {
			t.Fatal(err)
		}
	}
	if err := call("shop", syncer("east")); err == nil || !strings.Contains(err.Error(), "calls of webhooks in flight") {
		t.Errorf("one more: %v", err)
	}
	for name, err := range map[string]error{
		"a user there": call("shop", &user.DefaultInfo{Name: "ann"}), "another physical cluster": call("shop", syncer("west")), "another logical cluster": call("web", syncer("east")),
	} {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
