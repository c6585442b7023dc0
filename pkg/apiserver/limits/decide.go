package limits

import (
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// author is who writes.
type author int

const (
	byUser author = iota
	bySyncer
	// bySystem: the server itself, and admins of the control plane.
	bySystem
)

// write is one that is about to happen.
type write struct {
	by     author
	ending bool // it is part of a deletion
	class  class
	// before and after are the bytes under the key; before is zero for what is new.
	before, after int64
}

// exceeded is a limit that a write would exceed.
type exceeded struct {
	field string // of spec.limits
	what  string // that is counted
	is    int64  // without the write
	limit int64
	// passes says that it is over with time.
	passes bool
}

// reserve is how much more than a limit L somebody may use. Beyond L a user can change
// what is there, as small changes grow an object a little (a label, managed fields, the
// removal of a finalizer); the system can write what it has to say of what users have.
const (
	changesReserve = 10 // L + L/10
	systemReserve  = 2  // L + L/2
)

// decide returns the limit that a write would exceed; nil if it may happen.
//
//	write                                  by a user     by a syncer   by the system, admins
//	part of a deletion                     yes           yes           yes
//	an update that makes nothing larger    if W          if W          yes
//	an update that makes an object larger  1.1 L, if W   if W          yes
//	something new                          L, if W       1.5 L, if W   1.5 L
//
// L is the limit of the class, in objects and bytes, up to which it may happen. W: of the
// class less was written lately than may be; half as much again for a syncer.
func decide(w write, use [classes]amount, written [classes]int64, l limits) *exceeded {
	if w.ending {
		return nil
	}
	lately := written[w.class]
	if w.by == byUser && lately+w.after > l.written || w.by == bySyncer && lately+w.after > l.written+l.written/systemReserve {
		return &exceeded{field: "writtenBytes", what: "bytes written within ten minutes", is: lately, limit: l.written, passes: true}
	}
	if w.before > 0 && (w.after <= w.before || w.by != byUser) {
		return nil
	}
	most := l.kept[w.class]
	switch {
	case w.by != byUser:
		most = amount{most.count + most.count/systemReserve, most.bytes + most.bytes/systemReserve}
	case w.before > 0:
		most = amount{most.count, most.bytes + most.bytes/changesReserve}
	}
	is := use[w.class]
	if w.before == 0 && is.count+1 > most.count {
		return &exceeded{field: counts[w.class].field, what: counts[w.class].what, is: is.count, limit: l.kept[w.class].count}
	}
	if is.bytes+w.after-w.before > most.bytes {
		return &exceeded{field: sizes[w.class].field, what: sizes[w.class].what, is: is.bytes, limit: l.kept[w.class].bytes}
	}
	return nil
}

type name struct{ field, what string }

var (
	recordsAre = "records (Copies, Placements, Events, Pods, ReplicaSets, ControllerRevisions, Endpoints, EndpointSlices)"
	counts     = [classes]name{objects: {"objects", "objects"}, records: {"objects", recordsAre}, definitions: {"definitions", "CustomResourceDefinitions"}}
	sizes      = [classes]name{objects: {"bytes", "bytes of objects"}, records: {"bytes", "bytes of " + recordsAre}, definitions: {"definitionBytes", "bytes of CustomResourceDefinitions"}}
)

// CauseLimit is the cause in the status of what is refused by a limit; its field is the
// limit.
const CauseLimit metav1.CauseType = "LimitOfLogicalCluster"

// refusal is the answer: 403, as that of a quota, or 429 for what passes. It does not say
// when to try again: clients would, for minutes, and nobody would learn why they wait.
func (e *exceeded) refusal(cluster string) *apierrors.StatusError {
	field := "spec.limits." + e.field
	s := metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden,
		Message: fmt.Sprintf("logical cluster %q has %d %s, and %s of its LogicalCluster permits %d: delete what is not needed, or ask an admin of the control plane for more",
			cluster, e.is, e.what, field, e.limit),
		Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: CauseLimit, Field: field, Message: fmt.Sprintf("%d of %d", e.is, e.limit)}}},
	}
	if e.passes {
		s.Code, s.Reason = http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests
		s.Message = fmt.Sprintf("logical cluster %q has %d %s, and %s of its LogicalCluster permits %d: try again later, or ask an admin of the control plane for more",
			cluster, e.is, e.what, field, e.limit)
	}
	return &apierrors.StatusError{ErrStatus: s}
}
