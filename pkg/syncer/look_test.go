package syncer

import (
	"errors"
	"net/http"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

func TestWhatALookShows(t *testing.T) {
	resource := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	page := &apierrors.StatusError{ErrStatus: metav1.Status{Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound, Message: "no such page"}}
	gone := apierrors.NewNotFound(resource.GroupResource(), "conf")
	another := apierrors.NewNotFound(resource.GroupResource(), "another")
	forbidden := apierrors.NewForbidden(resource.GroupResource(), "conf", errors.New("no"))
	there := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"uid": "below"}}}
	const (
		isThere  = "there"
		isGone   = "gone"
		again    = "again"
		unproven = "unproven "
	)
	for name, c := range map[string]struct {
		answer   error
		unserved bool
		recorded types.UID
		before   string // the reason of a failure
		known    bool   // it was looked at before
		proof    any    // what kindGone answers; nil: it may not be asked
		want     string
	}{
		"it is there":                                    {want: isThere},
		"it is there, and the write was refused":         {before: "Invalid", want: isThere + " Invalid"},
		"it is there, of a kind not served":              {unserved: true, before: reasonNotServed, want: isThere},
		"it is not there":                                {answer: gone, known: true, want: isGone},
		"it is not there, of a kind not served":          {answer: gone, unserved: true, recorded: "below", before: reasonNotServed, want: isGone + " NotServed"},
		"a page":                                         {answer: page, recorded: "below", want: unproven + "NotFound"},
		"another one is not there":                       {answer: another, want: unproven + "NotFound"},
		"a page, and it never was":                       {answer: page, want: unproven + "NotFound"},
		"a page, of a kind not served, and it never was": {answer: page, unserved: true, before: reasonNotServed, want: isGone + " NotServed"},
		"a page, and the kind is gone":                   {answer: page, unserved: true, recorded: "below", before: reasonNotServed, proof: true, want: isGone + " NotServed"},
		"a page, and the kind may come back":             {answer: page, unserved: true, recorded: "below", before: reasonNotServed, proof: false, want: unproven + "NotServed"},
		"a page, and of the kind is silence":             {answer: page, unserved: true, recorded: "below", before: reasonNotServed, proof: errors.New("silence"), want: again},
		"it may not be seen":                             {answer: forbidden, want: unproven + "Forbidden"},
		"it may not be seen, of a kind not served":       {answer: forbidden, unserved: true, before: reasonNotServed, want: unproven + "Forbidden"},
		"it may not be seen, nor be written":             {answer: forbidden, before: "Invalid", want: unproven + "Invalid"},
		"it may not be seen any more":                    {answer: forbidden, known: true, want: isThere + " Forbidden"},
		"silence":                                        {answer: errors.New("silence"), want: again},
		"it begins":                                      {answer: apierrors.NewServiceUnavailable("starting"), unserved: true, recorded: "below", want: again},
	} {
		in := situation{logical: "deleting", copy: "Synced"}.input()
		in.Unseen, in.Unproven, in.Copy.Status.PhysicalUID = true, c.unserved, c.recorded
		if c.before != "" {
			in.Failure = &Failure{Reason: c.before}
		}
		if in.Physical = nil; c.known {
			in.Physical, in.Unseen = there, false
		}
		var answered *unstructured.Unstructured
		if c.answer == nil {
			answered = there
		}
		out, err := Looked(in, resource, "conf", answered, c.answer, func() (bool, error) {
			if err, silent := c.proof.(error); silent {
				return false, err
			}
			return c.proof.(bool), nil
		})
		got := isGone
		switch {
		case err != nil:
			got = again
		case out.Unseen:
			got = "unseen"
		case out.Unproven && out.Physical != nil:
			got = "both"
		case out.Unproven:
			got = "unproven"
		case out.Physical != nil:
			got = isThere
		}
		if out.Failure != nil && err == nil {
			got += " " + out.Failure.Reason
		}
		if got != c.want {
			t.Errorf("%s: %s, not %s", name, got, c.want)
		}
		if out.Unproven && err == nil && out.Failure == nil {
			t.Errorf("%s: nobody knows why", name)
		}
	}
}
