package defaults

import (
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
	rbac "k8s.io/kubernetes/pkg/apis/rbac"
	"pgregory.net/rapid"
)

func rolesNamed(names ...string) []runtime.Object {
	var out []runtime.Object
	for _, name := range names {
		out = append(out, &rbac.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	return out
}

func listing(limit int64, token, version string) storage.ListOptions {
	return storage.ListOptions{ResourceVersion: version, Predicate: storage.SelectionPredicate{
		Label: labels.Everything(), Field: fields.Everything(), Limit: limit, Continue: token}}
}

// pages follows the tokens of a list to its end, all at version 7.
func pages(t interface{ Fatal(...any) }, all []runtime.Object, limit int64) (out [][]string) {
	token := ""
	for {
		o := listing(limit, token, "")
		after, wide, err := position(o)
		if err != nil {
			t.Fatal(err)
		}
		if token != "" && (wide.ResourceVersion != "7" || wide.ResourceVersionMatch != metav1.ResourceVersionMatchExact) {
			t.Fatal("a later page is not read at the version of the first:", wide.ResourceVersion, wide.ResourceVersionMatch)
		}
		if wide.Predicate.Limit != 0 || wide.Predicate.Continue != "" {
			t.Fatal("the storage below is asked for a page of its own:", wide.Predicate)
		}
		page, next, remaining, err := cut(all, after, "7", o)
		if err != nil {
			t.Fatal(err)
		}
		names := []string{}
		for _, obj := range page {
			names = append(names, nameOf(obj))
		}
		out = append(out, names)
		left := len(all)
		for _, p := range out {
			left -= len(p)
		}
		switch {
		case next == "" && left == 0 && remaining == nil:
			return out
		case next == "" || remaining == nil || int(*remaining) != left:
			t.Fatal("after", out, "token", next, "remaining", remaining, "left", left)
		}
		token = next
	}
}

func TestAListIsCutIntoPages(t *testing.T) {
	t.Parallel()
	all := rolesNamed("admin", "edit", "system:a", "system:a:b", "view")
	for limit, want := range map[int64][][]string{
		0: {{"admin", "edit", "system:a", "system:a:b", "view"}},
		2: {{"admin", "edit"}, {"system:a", "system:a:b"}, {"view"}},
		3: {{"admin", "edit", "system:a"}, {"system:a:b", "view"}},
		5: {{"admin", "edit", "system:a", "system:a:b", "view"}},
	} {
		if diff := cmp.Diff(want, pages(t, all, limit)); diff != "" {
			t.Errorf("limit %d (-want +got):\n%s", limit, diff)
		}
	}
}

func TestEveryObjectIsOnOnePage(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n, limit := rapid.IntRange(0, 40).Draw(t, "objects"), rapid.Int64Range(1, 12).Draw(t, "limit")
		var names, got []string
		for i := range n {
			names = append(names, "role-"+strconv.Itoa(100+i))
		}
		for _, page := range pages(t, rolesNamed(names...), limit) {
			got = append(got, page...)
		}
		if diff := cmp.Diff(names, got); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestAPositionIsReadAsTheTableSays(t *testing.T) {
	t.Parallel()
	token := func(version int64) string {
		out, err := storage.EncodeContinue("/edit\x00", "/", version)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	if after, wide, err := position(listing(5, token(-1), "")); err != nil || after != "edit" || wide.ResourceVersion != "" || wide.ResourceVersionMatch != "" {
		t.Errorf("an expired one goes on at the latest version: %q, %+v, %v", after, wide, err)
	}
	for name, o := range map[string]storage.ListOptions{
		"no token":           listing(5, "x", ""),
		"a token of nothing": listing(5, token(0), ""),
		"a version, too":     listing(5, token(7), "9"),
	} {
		if _, _, err := position(o); !apierrors.IsBadRequest(err) {
			t.Errorf("%s: %v, want BadRequest", name, err)
		}
	}
	if _, wide, err := position(listing(5, "", "9")); err != nil || wide.ResourceVersion != "9" {
		t.Errorf("the first page is read at the version that is asked for: %+v, %v", wide, err)
	}
	if page, next, _, err := cut(rolesNamed("a", "b", "c"), "", "7", listing(1, "", "0")); err != nil || len(page) != 3 || next != "" {
		t.Errorf("whatever is in the cache is answered whole: %d objects, %q, %v", len(page), next, err)
	}
}

func TestAnExpiredPageSaysHowToGoOn(t *testing.T) {
	t.Parallel()
	err := expired(apierrors.NewResourceExpired("gone"), "edit")
	status, ok := err.(apierrors.APIStatus)
	if !ok || !apierrors.IsResourceExpired(err) || status.Status().Continue == "" {
		t.Fatalf("%v, want an expiry with a token", err)
	}
	after, _, err := position(listing(5, status.Status().Continue, ""))
	if err != nil || after != "edit" {
		t.Errorf("its token leads to %q, %v", after, err)
	}
	if err := expired(apierrors.NewResourceExpired("gone"), ""); !strings.Contains(err.Error(), "gone") {
		t.Errorf("the first page: %v", err)
	}
}
