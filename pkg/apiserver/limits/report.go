package limits

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"

	tenancy "github.com/atoll-dev/atoll/pkg/apis/tenancy/v1alpha1"
)

const (
	// reportInterval is how often usage is compared with what the status says.
	reportInterval = 15 * time.Second
	// detailInterval is how old a status is at least that is written for a small change.
	detailInterval = 5 * time.Minute
	// reportTimeout bounds each request of a report: one that hangs is not to be the last.
	reportTimeout = 10 * time.Second
)

// Status reads and writes LogicalClusters in root.
type Status interface {
	List(context.Context) ([]tenancy.LogicalCluster, error)
	Patch(ctx context.Context, name string, kind types.PatchType, data []byte) error
}

// Report writes the usage of logical clusters into their status until ctx ends. With
// several servers each does, and finds what another has written: all count the same.
func (c *Counter) Report(ctx context.Context, status Status) {
	select {
	case <-c.counted:
	case <-ctx.Done():
	}
	wait.JitterUntilWithContext(ctx, func(ctx context.Context) {
		all, err := list(ctx, status)
		if err != nil {
			if ctx.Err() == nil {
				klog.FromContext(ctx).Error(err, "Reporting what logical clusters keep failed, will try again")
			}
			return
		}
		for i := range all {
			if err := c.report(ctx, status, &all[i]); err != nil && ctx.Err() == nil {
				klog.FromContext(ctx).Error(err, "Reporting what a logical cluster keeps failed", "cluster", all[i].Name)
			}
		}
	}, reportInterval, 0.5, true)
}

func list(ctx context.Context, from Status) ([]tenancy.LogicalCluster, error) {
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	return from.List(ctx) //nolint:wrapcheck // it says what it lists
}

func (c *Counter) report(ctx context.Context, to Status, lc *tenancy.LogicalCluster) error {
	now := c.Clock.Now()
	c.mu.Lock()
	use := c.tally.use(lc.Name)
	c.mu.Unlock()
	l := of(lc.Spec.Limits)
	conditions, changed := withReached(lc, use, l, now)
	if !changed && !worthReporting(lc.Status.Usage, use, l, now) {
		return nil
	}
	metadata, status := map[string]any{"uid": lc.UID}, map[string]any{"usage": usage(use, now)}
	if changed { // a list that others write, too
		metadata["resourceVersion"], status["conditions"] = lc.ResourceVersion, conditions
	}
	patch, err := json.Marshal(map[string]any{"metadata": metadata, "status": status})
	if err != nil {
		return fmt.Errorf("encoding the usage: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	if err := to.Patch(ctx, lc.Name, types.MergePatchType, patch); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("writing the usage: %w", err)
	}
	return nil
}

func usage(use [classes]amount, now time.Time) tenancy.LogicalClusterUsage {
	bytes := func(c class) resource.Quantity { return *resource.NewQuantity(use[c].bytes, resource.BinarySI) }
	return tenancy.LogicalClusterUsage{
		ObservedTime: metav1.NewTime(now),
		Objects:      use[objects].count, Bytes: bytes(objects),
		Records: use[records].count, RecordBytes: bytes(records),
		Definitions: use[definitions].count, DefinitionBytes: bytes(definitions),
	}
}

// worthReporting says whether a status that says before is written.
//
//	nothing changed                                    no
//	never written; a limit is reached, or not any more yes
//	changed by a tenth of what it was                  yes
//	changed, and written a while ago                   yes
//	else                                               no
func worthReporting(before *tenancy.LogicalClusterUsage, use [classes]amount, l limits, now time.Time) bool {
	if before == nil {
		return true
	}
	was := [classes]amount{
		objects: {before.Objects, before.Bytes.Value()}, records: {before.Records, before.RecordBytes.Value()},
		definitions: {before.Definitions, before.DefinitionBytes.Value()},
	}
	if was == use {
		return false
	}
	if age := now.Sub(before.ObservedTime.Time); age >= detailInterval || age < 0 {
		return true
	}
	for c := range use {
		if differ(was[c].count, use[c].count, l.kept[c].count) || differ(was[c].bytes, use[c].bytes, l.kept[c].bytes) {
			return true
		}
	}
	return false
}

func differ(was, is, limit int64) bool {
	return max(was-is, is-was) > was/10 || (was >= limit) != (is >= limit)
}
