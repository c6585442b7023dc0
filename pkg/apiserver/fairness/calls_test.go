package fairness

import (
	"context"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
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
