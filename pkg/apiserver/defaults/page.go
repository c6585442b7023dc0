package defaults

import (
	"fmt"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
)

// A page of a list with defaults is cut here, since the storage below knows no
// defaults. Its continue token is upstream's: the name after which the next page
// begins, and the version at which all pages are read. The prefix of the names in
// it is not the one of the storage, so that no token leads anywhere else.
const tokenPrefix = "/"

// position says after which name a list begins, and how the storage below is to be
// read for it:
//
//	continue     version in it  read below
//	none         -              as the client asks, but whole
//	good         some           exactly at that version
//	good         -1             at the latest: the old one has expired
//	bad          -              400
//	any, and the client names a version, too: 400
func position(o storage.ListOptions) (after string, wide storage.ListOptions, err error) {
	wide = o
	wide.Predicate = everything(o.Predicate)
	if o.Predicate.Continue == "" {
		return "", wide, nil
	}
	if o.ResourceVersion != "" && o.ResourceVersion != "0" {
		return "", wide, apierrors.NewBadRequest("specifying resource version is not allowed when using continue")
	}
	start, version, err := storage.DecodeContinue(o.Predicate.Continue, tokenPrefix)
	if err != nil {
		return "", wide, apierrors.NewBadRequest(fmt.Sprintf("invalid continue token: %v", err))
	}
	wide.ResourceVersion, wide.ResourceVersionMatch = "", ""
	if version > 0 {
		wide.ResourceVersion, wide.ResourceVersionMatch = strconv.FormatInt(version, 10), metav1.ResourceVersionMatchExact
	}
	return strings.TrimSuffix(strings.TrimPrefix(start, tokenPrefix), "\x00"), wide, nil
}

// expired gives an error that says that the version of a page is gone the token
// with which the list goes on at the latest one, as upstream does.
func expired(err error, after string) error {
	if after == "" || !apierrors.IsResourceExpired(err) {
		return err
	}
	token, tokenErr := storage.EncodeContinue(tokenPrefix+after+"\x00", tokenPrefix, -1)
	if tokenErr != nil {
		return err
	}
	status := apierrors.NewResourceExpired("the provided continue parameter is too old to display a consistent list result; " +
		"list again without it, or use the one of this answer to go on with an inconsistent list")
	status.ErrStatus.ListMeta.Continue = token
	return status
}

// cut leaves the page of a sorted list that begins after a name, and says how it
// goes on. A version of "0" is answered whole, as upstream does.
func cut(sorted []runtime.Object, after, version string, o storage.ListOptions) (page []runtime.Object, token string, remaining *int64, err error) {
	for len(sorted) > 0 && after != "" && nameOf(sorted[0]) <= after {
		sorted = sorted[1:]
	}
	limit := o.Predicate.Limit
	if limit <= 0 || int64(len(sorted)) <= limit || o.ResourceVersion == "0" && o.Predicate.Continue == "" {
		return sorted, "", nil, nil
	}
	at, err := strconv.ParseInt(version, 10, 64)
	if err != nil {
		return nil, "", nil, fmt.Errorf("reading the version of a list: %w", err)
	}
	page = sorted[:limit]
	token, remaining, err = storage.PrepareContinueToken(tokenPrefix+nameOf(page[limit-1]), tokenPrefix, at, int64(len(sorted)), true, o)
	if err != nil {
		return nil, "", nil, fmt.Errorf("making a continue token: %w", err)
	}
	return page, token, remaining, nil
}

// fill makes list the page of sorted objects that o asks for.
func fill(list runtime.Object, sorted []runtime.Object, after string, o storage.ListOptions) error {
	m, err := meta.ListAccessor(list)
	if err != nil {
		return fmt.Errorf("reading a list: %w", err)
	}
	page, token, remaining, err := cut(sorted, after, m.GetResourceVersion(), o)
	if err != nil {
		return err
	}
	if err := meta.SetList(list, page); err != nil {
		return fmt.Errorf("filling a list: %w", err)
	}
	m.SetContinue(token)
	m.SetRemainingItemCount(remaining)
	return nil
}
