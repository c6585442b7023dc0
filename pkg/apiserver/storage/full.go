package storage

import (
	"errors"
	"net/http"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// explain turns the refusal of an etcd that is full into one that says what to do. Such
// an etcd reads and deletes, and takes no other writes until somebody repairs it.
func explain(err error) error {
	if err == nil || !errors.Is(err, rpctypes.ErrNoSpace) && !errors.Is(err, rpctypes.ErrGRPCNoSpace) {
		return err
	}
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusInsufficientStorage, Reason: "InsufficientStorage",
		Message: "the server is read-only: the database of etcd has reached its quota (alarm NOSPACE): " +
			"delete what is not needed, have etcd compacted and defragmented, then disarm the alarm with: etcdctl alarm disarm",
	}}
}
