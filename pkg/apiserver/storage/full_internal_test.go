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

func TestAFullEtcdSaysWhatToDo(t *testing.T) {
	t.Parallel()
	for _, full := range []error{rpctypes.ErrNoSpace, fmt.Errorf("writing: %w", rpctypes.Error(rpctypes.ErrGRPCNoSpace))} {
		var status apierrors.APIStatus
		if err := explain(full); !errors.As(err, &status) || status.Status().Code != http.StatusInsufficientStorage ||
			!strings.Contains(status.Status().Message, "etcdctl alarm disarm") {
			t.Errorf("%v became %v", full, err)
		}
	}
	if other := errors.New("something else"); !errors.Is(explain(other), other) || explain(nil) != nil {
		t.Error("other errors were changed")
	}
}
