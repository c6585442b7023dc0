package boundary

import placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"

// Notes are what admission notes on an object for its way down. No user can write them.
type Notes struct {
	// Handler is that of the RuntimeClass which the pods name; empty if they name none, or one
	// that the logical cluster does not have.
	Handler string
}

// NotesOf are the notes on an object with its metadata as it is stored.
func NotesOf(annotations map[string]string) Notes {
	return Notes{Handler: annotations[placementv1alpha1.RuntimeHandlerAnnotation]}
}
