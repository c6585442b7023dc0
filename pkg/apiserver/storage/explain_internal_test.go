package storage

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

func TestAnEtcdThatCannotWriteSaysWhatToDo(t *testing.T) {
	t.Parallel()
	wrapped := func(err error) error { return fmt.Errorf("writing: %w", rpctypes.Error(err)) }
	for _, c := range []struct {
		err  error
		code int32
		says string
	}{
		{rpctypes.ErrNoSpace, http.StatusInsufficientStorage, "etcdctl alarm disarm"},
		{wrapped(rpctypes.ErrGRPCNoSpace), http.StatusInsufficientStorage, "etcdctl alarm disarm"},
		{rpctypes.ErrTimeout, http.StatusGatewayTimeout, "whether it is stored is not known"},
		{wrapped(rpctypes.ErrGRPCTimeoutDueToLeaderFail), http.StatusGatewayTimeout, "whether it is stored is not known"},
		{wrapped(rpctypes.ErrGRPCRequestTooManyRequests), http.StatusTooManyRequests, "is not stored"},
	} {
		var status apierrors.APIStatus
		if err := explain(c.err); !errors.As(err, &status) || status.Status().Code != c.code || !strings.Contains(status.Status().Message, c.says) {
			t.Errorf("%v became %v", c.err, err)
		}
	}
	if err := explainRead(wrapped(rpctypes.ErrGRPCTimeout)); !apierrors.IsTimeout(err) || !strings.Contains(err.Error(), "try again later") {
		t.Errorf("a read: %v", err)
	}
	if other := errors.New("something else"); !errors.Is(explain(other), other) || explain(nil) != nil {
		t.Error("other errors were changed")
	}
}
