package syncer

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Looked is the input after a Look at what has the name of the copy: obj, or err where the physical cluster answered
// otherwise. kindGone proves that nobody there defines the kind any more. The error is that it is to be asked again.
//
//	the answer                     the kind is known   the Copy records  kindGone  then
//	                               to be served        a UID
//	here it is                     any                 any                         it is Physical
//	this object does not exist     any                 any                         nothing is there
//	not found: of something else,  no                  no                          nothing was made
//	or of nothing                  no                  yes               yes       nothing is there
//	                               no                  yes               no        Unproven, NotServed
//	                               yes                 any                         Unproven, with the refusal
//	any other refusal              any                 any                         Unproven, with the refusal
//	none, or one that will pass    any                 any                         the error
//
// Who was refused a write and then the look says why of the write. What was there when it was looked at before stays
// known, and is not Unproven.
func Looked(in Input, resource schema.GroupVersionResource, name string, obj *unstructured.Unstructured, err error, kindGone func() (bool, error)) (Input, error) {
	notServed := in.Unproven
	switch {
	case err == nil:
		if in.Physical = obj; notServed {
			in.Failure = nil
		}
		in.Unseen, in.Unproven = false, false
		return in, nil
	case IsGone(err, resource.GroupResource(), name):
		in.Physical, in.Unseen, in.Unproven = nil, false, false
		return in, nil
	case notServed && apierrors.IsNotFound(err):
		gone := in.Copy.Status.PhysicalUID == ""
		if !gone {
			if gone, err = kindGone(); err != nil {
				return in, err
			}
		}
		if in.Unseen, in.Unproven = false, !gone; in.Unproven {
			in.Failure = NotProvenGone(resource)
		}
		return in, nil
	}
	refusalOf := RefusalOf
	if in.Ref.Kind.Carries {
		refusalOf = CarriedRefused
	}
	refusal, refused := refusalOf(err, in.Ref.Kind)
	if !refused {
		return in, fmt.Errorf("looking for the copy: %w", err)
	}
	if in.Failure == nil || notServed {
		in.Failure = &refusal
	}
	in.Unseen, in.Unproven = false, in.Physical == nil
	return in, nil
}
