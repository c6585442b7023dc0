package attack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/placement"
	"github.com/atoll-dev/atoll/pkg/scope"
)

const (
	// listRead is what is read at most of the answers of a physical cluster at a time, and listUnderWay
	// what the sockets between hold beside it.
	listRead, listUnderWay = 256 << 20, 32 << 20
	// listMemory is how much larger the process of the server may be while it reads that: what it has read,
	// once more as long as its room grows, and what becomes of it.
	listMemory = 1 << 30
	// endlessLists are how many are given up before the attack is over.
	endlessLists = 3
)

var endlessList = Attack{
	Name: "a physical cluster that answers a list without end does not grow the server beyond a bound, holds up no other, and gets nothing new",
	Real: true, // of a process of its own, which is looked at
	Fence: func(ctx context.Context, w *World) error {
		i := newInventor()
		i.endless = true
		defer i.close()
		before, err := resident(w.PID)
		if err != nil {
			return err
		}
		unregister, err := w.connect(ctx, "endless", i.URL, i.ca(), nil)
		if err != nil {
			return err
		}
		defer unregister()
		largest := before
		if err := eventually(ctx, "lists are given up", func() error {
			now, err := resident(w.PID)
			if err != nil {
				return err
			}
			largest = max(largest, now)
			if n := i.lists.Load(); n < endlessLists {
				return fmt.Errorf("%d are, of the longest of which %d bytes were taken", n, i.longest.Load())
			}
			return nil
		}); err != nil {
			return err
		}
		neighbour, s, err := w.siteAt(ctx, "east")
		if err != nil {
			return fmt.Errorf("at another physical cluster: %w", err)
		}
		if err := errors.Join(s.create(neighbour, users), s.arrived(neighbour, users, func(string) error { return nil }), s.who.served(neighbour)); err != nil {
			return fmt.Errorf("at another physical cluster: %w", err)
		}
		if err := w.isNotSynced(ctx, "endless"); err != nil {
			return err
		}
		switch longest := i.longest.Load(); {
		case longest < mostRead:
			return fmt.Errorf("it is not known to be endless: %d bytes of a list were taken", longest)
		case longest > listRead+listUnderWay:
			return fmt.Errorf("%d bytes of a list were taken", longest)
		case largest-before > listMemory:
			return fmt.Errorf("the server had %d bytes, and has %d", before, largest)
		}
		return nil
	},
	// Who has no bound reads on.
	Control: func(ctx context.Context, _ *World) error {
		i := newInventor()
		i.endless = true
		defer i.close()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, i.URL+"/api/v1/pods", nil)
		if err != nil {
			return err
		}
		resp, err := i.Client().Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if n, err := io.CopyN(io.Discard, resp.Body, 2*listRead); err != nil {
			return fmt.Errorf("the answer ended after %d bytes: %w", n, err)
		}
		return nil
	},
}

// isNotSynced says that a physical cluster answers, that it is known which list of it does not end, and that
// nothing goes there that would not run.
func (w *World) isNotSynced(ctx context.Context, name string) error {
	if err := eventually(ctx, "which list does not end", func() error { // in one of its next reports
		pc, err := w.admin.atoll.FleetV1alpha1().PhysicalClusters().Get(scope.WithCluster(ctx, scope.Root), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		syncing := meta.FindStatusCondition(pc.Status.Conditions, fleetv1alpha1.ConditionSyncing)
		if !meta.IsStatusConditionTrue(pc.Status.Conditions, fleetv1alpha1.ConditionReady) || syncing == nil ||
			syncing.Status != metav1.ConditionFalse || !strings.Contains(syncing.Message, "the first list of pods") {
			return fmt.Errorf("the physical cluster says %+v", pc.Status.Conditions)
		}
		return nil
	}); err != nil {
		return err
	}
	ctx, err := w.cluster(ctx)
	if err != nil {
		return err
	}
	for n := 0; ; n++ { // a decision stands: each asks anew
		namespace := fmt.Sprint("web-", n)
		if err := w.place(ctx, namespace, map[string]string{placementv1alpha1.PhysicalClusterAnnotation: name}, "1m"); err != nil {
			return err
		}
		p, err := w.admin.atoll.PlacementV1alpha1().Placements(namespace).Get(ctx, placementv1alpha1.NamespaceUnit, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if slices.ContainsFunc(p.Status.Rejected, func(r placementv1alpha1.RejectedPhysicalCluster) bool {
			return r.PhysicalCluster == name && r.Reason == placement.ReasonNotSyncing
		}) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("what would not run goes there: %+v", p.Status)
		case <-time.After(time.Second):
		}
	}
}

// resident is how many bytes of memory a process of this machine has (proc_pid_status(5)).
func resident(pid int) (int64, error) {
	status, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		return 0, fmt.Errorf("reading what a process has: %w", err)
	}
	for line := range strings.Lines(string(status)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "VmRSS:" {
			kilobytes, err := strconv.ParseInt(fields[1], 10, 64)
			return kilobytes << 10, err
		}
	}
	return 0, errors.New("it is not said what a process has")
}
