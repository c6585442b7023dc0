package controller

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestOnlyErrorsThatNoOtherEventExplainsAreUnexpected(t *testing.T) {
	t.Parallel()
	services := schema.GroupResource{Resource: "services"}
	ends := apierrors.NewForbidden(services, "web", errors.New("the namespace ends"))
	ends.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	broken := errors.New("broken")
	for name, c := range map[string]struct{ err, want error }{
		"none":                       {},
		"it is gone":                 {apierrors.NewNotFound(services, "web"), nil},
		"it is there":                {apierrors.NewAlreadyExists(services, "web"), nil},
		"its namespace ends":         {ends, nil},
		"it was changed in the time": {apierrors.NewConflict(services, "web", broken), broken},
		"anything else":              {broken, broken},
	} {
		got := Unexpected("writing", c.err)
		if (got == nil) != (c.want == nil) || got != nil && !errors.Is(got, c.err) {
			t.Errorf("%s: %v", name, got)
		}
	}
}
