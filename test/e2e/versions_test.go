package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/skew"
	"github.com/atoll-dev/atoll/test/framework/ports"
	"github.com/atoll-dev/atoll/test/framework/process"
)

// TestASyncerThatIsTooOldChangesNothingUntilItIsUpgraded replaces a syncer by one that servers
// refuse, for longer than silence takes, and back.
func TestASyncerThatIsTooOldChangesNothingUntilItIsUpgraded(t *testing.T) {
	long(t)
	if err := process.Missing("atoll-syncer-old"); err != nil {
		t.Skip(err, "(hack/build.sh atoll-syncer-old)")
	}
	ctx := context.Background()
	reef, syncer := theLab.startPull(t, "reef")
	theLab.setApart(t, "reef")
	k := theLab.newCluster(t)
	must(t)(k.Run(ctx, "annotate", "namespace", "default", "placement.atoll.dev/cluster=reef"))
	must(t)(k.Apply(ctx, deployment("app", 2)+deployment("doomed", 1)))
	must(t)(k.Run(ctx, "rollout", "status", "deployment/app", "--timeout=3m"))
	must(t)(k.Run(ctx, "rollout", "status", "deployment/doomed", "--timeout=3m"))
	h := theLab.homeOf(t, k, "default", reef)
	uid := uidOf(t, h.below(), "app")
	mine := skew.Current()
	if err := want("status.syncer", physical(t, "reef").Status.Syncer, &fleetv1alpha1.SyncerVersion{Version: mine.Build, Revision: mine.Revision}); err != nil {
		t.Error(err)
	}

	health, err := ports.Address("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	old := start(t, process.Spec{
		Path: process.Binary("atoll-syncer-old"), Args: append(syncer.Args(), "--health-address", health),
		Log: theLab.path("reef-syncer-old.log"), Ready: "Not syncing",
	})
	consistently(t, 8*time.Second, func() error { return ready(t, "reef", fleetv1alpha1.ReasonHeartbeat) }) // the other one works

	if err := syncer.Stop(); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error { return ready(t, "reef", fleetv1alpha1.ReasonIncompatibleSyncer) })
	message := meta.FindStatusCondition(physical(t, "reef").Status.Conditions, fleetv1alpha1.ConditionReady).Message
	for _, part := range []string{"v0.0.1 (revision 0)", mine.String(), "Upgrade the syncer"} {
		if !strings.Contains(message, part) {
			t.Errorf("%q is not in the message %q", part, message)
		}
	}
	for path, c := range map[string]struct {
		code int
		says string
	}{"/healthz": {http.StatusOK, "ok"}, "/readyz": {http.StatusServiceUnavailable, message}} {
		code, body, err := read(ctx, "http://"+health+path)
		if err != nil || code != c.code || strings.TrimSpace(body) != c.says {
			t.Errorf("%s of the old syncer: %d %q (error %v), want %d %q", path, code, body, err, c.code, c.says)
		}
	}
	must(t)(k.Run(ctx, "delete", "deployment", "doomed", "--wait=false"))
	must(t)(k.Run(ctx, "scale", "deployment/app", "--replicas=3"))
	must(t)(k.Apply(ctx, deployment("meanwhile", 1)))
	consistently(t, 50*time.Second, func() error {
		var d appsv1.Deployment
		for _, name := range []string{"app", "doomed"} {
			if ok, err := h.below().Get(ctx, &d, "deployment", name); err != nil || !ok || d.DeletionTimestamp != nil || name == "app" && *d.Spec.Replicas != 2 {
				return fmt.Errorf("%s is on reef: %t (error %v), with %v replicas, want it as it was", name, ok, err, d.Spec.Replicas)
			}
		}
		if ok, err := k.Get(ctx, &d, "deployment", "doomed"); err != nil || !ok {
			return fmt.Errorf("doomed is there: %t (error %v), want nobody to acknowledge its end", ok, err)
		}
		if err := gone(h.below(), "deployment", "meanwhile"); err != nil {
			return err
		}
		return ready(t, "reef", fleetv1alpha1.ReasonIncompatibleSyncer)
	})
	if n := strings.Count(old.LogTail(), "Not syncing"); n > 2 {
		t.Errorf("the old syncer says %d times in a minute that it is too old", n)
	}

	if err := old.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := syncer.Start(ctx); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error { return ready(t, "reef", fleetv1alpha1.ReasonHeartbeat) })
	converges(t, k, h, map[string]int32{"app": 3, "meanwhile": 1})
	if err := want("UID of the copy", uidOf(t, h.below(), "app"), uid); err != nil {
		t.Errorf("the copy was made anew: %v", err)
	}
	if err := want("status.syncer", physical(t, "reef").Status.Syncer, &fleetv1alpha1.SyncerVersion{Version: mine.Build, Revision: mine.Revision}); err != nil {
		t.Error(err)
	}
}

// read gets a URL.
func read(ctx context.Context, url string) (code int, body string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(data), err
}
