package limits

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/endpoints/request"

	fleet "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/apiserver/auth"
	"github.com/atoll-dev/atoll/pkg/scope"
)

// What a syncer writes in root is counted as that of a logical cluster is, by the physical
// cluster that it is about. The classes there have a meaning of their own, and none takes the room
// of another: whatever else a syncer writes, its Lease is renewed.
const (
	reports    = objects     // its PhysicalCluster and its Orphans
	heartbeats = records     // its Lease
	requests   = definitions // for certificates: counted by the server that was asked
)

// report is what is known of a write of a syncer in root.
type report struct {
	write
	orphan bool
}

const (
	// The status of a PhysicalCluster with 5,000 nodes and 2,000 kinds takes half of this, if no two
	// of its ranges of addresses are one.
	maxStatus = mib
	// An Orphan has names and conditions: some KiB.
	maxOrphan    = 16 << 10
	maxHeartbeat = 8 << 10
	maxRequest   = 64 << 10
	// An honest Lease is written 60 to 300 times in ten minutes, with some 500 bytes.
	heartbeatsWritten = mib
	requestsWritten   = mib
	// A status is written once in a second at most: 600 times 400 KiB.
	reportsWritten = 256 * mib
	// As many as are listed, and as many again that have an order while others are listed.
	mostOrphans = 2 * fleet.MaxOrphans
)

// exceededReport is a limit that a syncer meets.
type exceededReport struct {
	bound     string // of spec.bounds; empty if it is fixed
	what      string
	is, limit int64
	passes    bool
}

// decideReport returns why a syncer may not write in root, nil if it may.
//
//	                        as large as       how many            within ten minutes
//	status                  1 MiB             one                 bytes/written, 256 MiB
//	Orphan                  16 KiB            count/orphans       the same, all together
//	Lease                   8 KiB             one                 1 MiB
//	request (certificate)   64 KiB            by when they end    1 MiB
func decideReport(r report, use amount, written int64, bounds corev1.ResourceList) *exceededReport {
	if r.ending {
		return nil
	}
	most, lately := int64(maxStatus), bound(bounds, fleet.BoundWritten, reportsWritten)
	name := string(fleet.BoundWritten)
	switch {
	case r.class == heartbeats:
		most, lately, name = maxHeartbeat, heartbeatsWritten, ""
	case r.class == requests:
		most, lately, name = maxRequest, requestsWritten, ""
	case r.orphan:
		most = maxOrphan
	}
	switch orphans := bound(bounds, fleet.BoundOrphans, mostOrphans); {
	case r.after > most && r.after > r.before:
		return &exceededReport{what: "bytes in one object", is: r.after, limit: most}
	case r.orphan && r.before == 0 && use.count > orphans: // one of them is the PhysicalCluster
		return &exceededReport{bound: string(fleet.BoundOrphans), what: "Orphans", is: use.count - 1, limit: orphans}
	case written+r.after > lately:
		return &exceededReport{bound: name, what: "bytes written in root within ten minutes", is: written, limit: lately, passes: true}
	}
	return nil
}

func bound(bounds corev1.ResourceList, name corev1.ResourceName, otherwise int64) int64 {
	if q, ok := bounds[name]; ok {
		return min(q.Value(), none)
	}
	return otherwise
}

func (e *exceededReport) refusal(physicalCluster string) *apierrors.StatusError {
	permits, do, wayOut := "the most that its syncer may write is", "delete what is not needed", "write less"
	if e.bound != "" {
		permits, wayOut = fmt.Sprintf("and spec.bounds[%q] of its PhysicalCluster permits", e.bound), "ask an admin of the control plane for more"
	}
	s := metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden,
		Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: CauseReport, Field: e.bound, Message: fmt.Sprintf("%d of %d", e.is, e.limit)}}},
	}
	if e.passes {
		s.Code, s.Reason, do = http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, "try again later"
	}
	s.Message = fmt.Sprintf("physical cluster %q has %d %s, %s %d: %s, or %s", physicalCluster, e.is, e.what, permits, e.limit, do, wayOut)
	return &apierrors.StatusError{ErrStatus: s}
}

// CauseReport is the cause in an answer to a syncer that writes too much in root.
const CauseReport metav1.CauseType = "LimitOfPhysicalCluster"

// orphanSuffix is how long what follows the physical cluster in the name of an Orphan is.
const orphanSuffix = len("-0123456789ab")

// reportOf says which physical cluster an object of root is the report of.
func reportOf(key string) (physicalCluster string, c class, orphan, ok bool) {
	root := scope.Root.String()
	rest, _ := strings.CutPrefix(key, Prefix)
	if name, is := strings.CutPrefix(rest, "physicalclusters/"+root+"/"); is {
		return name, reports, false, name != ""
	}
	if name, is := strings.CutPrefix(rest, "leases/"+root+"/"+fleet.LeaseNamespace+"/"); is {
		return name, heartbeats, false, name != ""
	}
	if name, is := strings.CutPrefix(rest, "orphans/"+root+"/"); is && len(name) > orphanSuffix {
		return name[:len(name)-orphanSuffix], reports, true, true
	}
	return "", 0, false, false
}

// account is by whom what is stored under a key is counted: by a logical cluster, or in root by the
// physical cluster that it reports on, which has a "/" in front that no name of the former has.
func account(key string) (name string, c class, ok bool) {
	if name, c, ok = parse(key); ok && name == scope.Root.String() {
		if physicalCluster, as, _, is := reportOf(key); is {
			return "/" + physicalCluster, as, true
		}
	}
	return name, c, ok
}

// admitReport decides about a write of a syncer in root.
func (c *Counter) admitReport(ctx context.Context, key string, w write) error {
	r := report{write: w}
	who, class, orphan, is := reportOf(key)
	if r.class, r.orphan = class, orphan; !is {
		if u, ok := request.UserFrom(ctx); ok {
			who, _ = auth.SyncerOf(u)
		}
		r.class = requests
	}
	name := "/" + who
	now := c.Clock.Now()
	c.mu.Lock()
	if c.tally == nil {
		c.mu.Unlock()
		return nil // the server says that it is not ready
	}
	use, written := c.tally.use(name), c.recent.of(now, name)
	c.mu.Unlock()
	var bounds corev1.ResourceList
	if c.Bounds != nil && r.class == reports {
		bounds = c.Bounds(ctx, who)
	}
	if e := decideReport(r, use[r.class], written[r.class], bounds); e != nil {
		return e.refusal(who)
	}
	if !is {
		c.mu.Lock()
		c.recent.add(now, name, r.class, w.after)
		c.mu.Unlock()
	}
	return nil
}
