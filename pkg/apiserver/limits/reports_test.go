package limits

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"

	fleet "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/apiserver/auth"
)

func TestWhatASyncerWritesInRootIsDecidedByWhatItIs(t *testing.T) {
	t.Parallel()
	bounds := corev1.ResourceList{fleet.BoundOrphans: resource.MustParse("10"), fleet.BoundWritten: resource.MustParse("10Mi")}
	lease, certificate := write{class: heartbeats, before: 500, after: 500}, write{class: requests, after: 3000}
	for name, c := range map[string]struct {
		r       report
		count   int64
		written int64
		bounds  corev1.ResourceList
		want    string
	}{
		"a status":                          {r: report{write: write{before: 10, after: maxStatus}}},
		"a status that is too large":        {r: report{write: write{before: 10, after: maxStatus + 1}}, want: "one object"},
		"one from before that shrinks":      {r: report{write: write{before: maxStatus + 9, after: maxStatus + 8}}},
		"much was written":                  {r: report{write: write{before: 10, after: 10}}, written: reportsWritten - 10},
		"too much was written":              {r: report{write: write{before: 10, after: 10}}, written: reportsWritten - 9, want: "bytes/written passes"},
		"more than an admin permits":        {r: report{write: write{before: 10, after: 10}}, written: 10 << 20, bounds: bounds, want: "bytes/written passes"},
		"a deletion":                        {r: report{write: write{ending: true, after: 10}, orphan: true}, written: 1 << 40, count: 1 << 40},
		"the last Orphan":                   {r: report{write: write{after: 2000}, orphan: true}, count: mostOrphans},
		"one Orphan more":                   {r: report{write: write{after: 2000}, orphan: true}, count: mostOrphans + 1, want: "count/orphans"},
		"one Orphan more than is permitted": {r: report{write: write{after: 2000}, orphan: true}, count: 11, bounds: bounds, want: "count/orphans"},
		"the state of an Orphan":            {r: report{write: write{before: 2000, after: 2100}, orphan: true}, count: 1 << 20},
		"a large Orphan":                    {r: report{write: write{after: maxOrphan + 1}, orphan: true}, want: "one object"},
		"a Lease":                           {r: report{write: lease}, written: heartbeatsWritten - 500, bounds: bounds},
		"a Lease too often":                 {r: report{write: lease}, written: heartbeatsWritten - 499, want: " passes"},
		"a large Lease":                     {r: report{write: write{class: heartbeats, after: maxHeartbeat + 1}}, want: "one object"},
		"a request":                         {r: report{write: certificate}},
		"requests without end":              {r: report{write: certificate}, written: requestsWritten - 2999, want: " passes"},
	} {
		got := ""
		if e := decideReport(c.r, amount{count: c.count}, c.written, c.bounds); e != nil {
			if got = e.bound; e.what == "bytes in one object" {
				got = "one object"
			}
			if e.passes {
				got += " passes"
			}
		}
		if got != c.want {
			t.Errorf("%s: refused by %q, want %q", name, got, c.want)
		}
	}
}

// A syncer of a physical cluster with 10,000 copies: what it writes in root does not grow with
// them, but for its Orphans after a restored backup.
func TestAnHonestSyncerMeetsNoLimit(t *testing.T) {
	t.Parallel()
	c, now := counting(), time.Now()
	c.tally = newTally()
	status, orphan := "/registry/physicalclusters/root/east", func(i int) string { return fmt.Sprintf("/registry/orphans/root/east-%012x", i) }
	syncer := by(&user.DefaultInfo{Name: auth.SyncerUser("east"), Groups: []string{auth.SyncersGroup}}, request.RequestInfo{Verb: "update"})
	c.tally.set(status, 60<<10)
	put := func(key string, bytes int, exists bool) {
		t.Helper()
		if err := c.Admit(syncer, key, make([]byte, bytes), exists); err != nil {
			t.Fatalf("%s: %v", key, err)
		}
		c.Written(key, make([]byte, bytes))
		c.recent.take(now, key, int64(bytes))
	}
	for range 600 { // one each second, of 1,000 kinds
		put(status, 128<<10, true)
	}
	for i := range fleet.MaxOrphans { // made, and written by the server and the syncer
		put(orphan(i), 3<<10, false)
		put(orphan(i), 4<<10, true)
		put(orphan(i), 4<<10, true)
	}
	for range 600 {
		put("/registry/leases/root/"+fleet.LeaseNamespace+"/east", 600, true)
	}
}

func TestWhatASyncerWritesInRootIsCountedByItsPhysicalCluster(t *testing.T) {
	t.Parallel()
	c := counting()
	c.Bounds = func(_ context.Context, name string) corev1.ResourceList {
		return corev1.ResourceList{fleet.BoundOrphans: resource.MustParse("2"), fleet.BoundWritten: resource.MustParse("4k")}
	}
	c.tally = newTally()
	syncerOf := func(name string) context.Context {
		return by(&user.DefaultInfo{Name: auth.SyncerUser(name), Groups: []string{auth.SyncersGroup}}, request.RequestInfo{Verb: "create"})
	}
	c.tally.set("/registry/physicalclusters/root/east", 100)
	c.tally.set("/registry/orphans/root/east-000000000001", 100)
	c.tally.set("/registry/orphans/root/east-000000000002", 100)
	third, value := "/registry/orphans/root/east-000000000003", make([]byte, 100)
	err := c.Admit(syncerOf("east"), third, value, false)
	if !apierrors.IsForbidden(err) || !apierrors.HasStatusCause(err, CauseReport) || !strings.Contains(err.Error(), `"east" has 2 Orphans, and spec.bounds["count/orphans"] of its PhysicalCluster permits 2: delete`) {
		t.Errorf("a third Orphan: %v", err)
	}
	if err := c.Admit(syncerOf("east-1"), "/registry/orphans/root/east-1-000000000003", value, false); err != nil {
		t.Errorf("another physical cluster: %v", err)
	}
	if err := c.Admit(by(&user.DefaultInfo{Name: "admin", Groups: []string{user.SystemPrivilegedGroup}}, request.RequestInfo{}), third, value, false); err != nil {
		t.Errorf("an admin: %v", err)
	}
	c.recent.take(c.Clock.Now(), "/registry/physicalclusters/root/east", 4000) // by whoever
	err = c.Admit(syncerOf("east"), "/registry/physicalclusters/root/east", value, true)
	if !apierrors.IsTooManyRequests(err) || !strings.Contains(err.Error(), `spec.bounds["bytes/written"] of its PhysicalCluster permits 4000: try again later`) {
		t.Errorf("a status: %v", err)
	}
	if err := c.Admit(syncerOf("east"), "/registry/leases/root/"+fleet.LeaseNamespace+"/east", value, true); err != nil {
		t.Errorf("its Lease: %v", err)
	}
	for i := range 40 {
		err = c.Admit(syncerOf("east"), fmt.Sprint("/registry/certificatesigningrequests/root/a", i), make([]byte, 60_000), false)
	}
	if !apierrors.IsTooManyRequests(err) || !strings.Contains(err.Error(), "the most that its syncer may write is 1048576") {
		t.Errorf("requests without end: %v", err)
	}
	if err := c.Admit(syncerOf("east"), "/registry/leases/root/"+fleet.LeaseNamespace+"/east", value, true); err != nil {
		t.Errorf("its Lease after requests: %v", err)
	}
	if err := c.Admit(syncerOf("west"), "/registry/physicalclusters/root/west", value, true); err != nil {
		t.Errorf("another physical cluster: %v", err)
	}
}
