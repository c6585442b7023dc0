package storage

import (
	"errors"
	"net/http"
	"slices"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// explain turns what etcd says when it cannot write into what to do about it.
//
//	etcd                                     answer
//	is full (alarm NOSPACE)                  507: it reads and deletes, and takes no other writes until somebody repairs it
//	did not store it in time, as when its    504: whether it is stored is not known
//	disk is slow
//	has too many writes that wait for that   429: it is not stored
//	anything else                            as it is
func explain(err error) error {
	is := func(known error) bool { return errors.Is(err, known) }
	switch {
	case err == nil:
		return nil
	case is(rpctypes.ErrNoSpace), is(rpctypes.ErrGRPCNoSpace):
		return failure(http.StatusInsufficientStorage, "InsufficientStorage",
			"the server is read-only: the database of etcd has reached its quota (alarm NOSPACE): "+
				"delete what is not needed, have etcd compacted and defragmented, then disarm the alarm with: etcdctl alarm disarm")
	case slices.ContainsFunc(late, is):
		return failure(http.StatusGatewayTimeout, metav1.StatusReasonTimeout,
			"the database did not store the write in time, its disk is slow or does not answer: whether it is stored is not known, "+
				"read the object before writing again (it may also be stored later)")
	case is(rpctypes.ErrTooManyRequests), is(rpctypes.ErrGRPCRequestTooManyRequests):
		return apierrors.NewTooManyRequests("the database has too many writes that wait for its disk, this one is not stored: try again later", retryAfterSeconds)
	}
	return err
}

// explainRead is explain for who read, which changes nothing.
func explainRead(err error) error {
	if slices.ContainsFunc(late, func(known error) bool { return errors.Is(err, known) }) {
		return failure(http.StatusGatewayTimeout, metav1.StatusReasonTimeout, "the database did not answer in time, its disk is slow or does not answer: try again later")
	}
	return err
}

// retryAfterSeconds is when who is refused because others wait should ask again.
const retryAfterSeconds = 2

var late = []error{
	rpctypes.ErrTimeout, rpctypes.ErrGRPCTimeout, rpctypes.ErrTimeoutDueToLeaderFail, rpctypes.ErrGRPCTimeoutDueToLeaderFail,
	rpctypes.ErrTimeoutDueToConnectionLost, rpctypes.ErrGRPCTimeoutDueToConnectionLost, rpctypes.ErrTimeoutWaitAppliedIndex, rpctypes.ErrGRPCTimeoutWaitAppliedIndex,
}

func failure(code int32, reason metav1.StatusReason, message string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason, Message: message}}
}
