package controller

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Unexpected is the error of a write, said with what was being done. It is nil where another
// event is about to show what happened: the object is gone, or was made by somebody else; and
// for a namespace that takes nothing any more.
func Unexpected(doing string, err error) error {
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return nil
	}
	return fmt.Errorf("%s: %w", doing, err)
}
