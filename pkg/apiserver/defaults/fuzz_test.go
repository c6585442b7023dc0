package defaults

import (
	"encoding/base64"
	"strconv"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FuzzContinue: a token leads to a name in the list and to a version, or is a 400; the storage below
// never sees it.
func FuzzContinue(f *testing.F) {
	for _, token := range []string{
		`{"v":"meta.k8s.io/v1","rv":7,"start":"edit\u0000"}`, `{"v":"meta.k8s.io/v1","rv":-1,"start":"edit\u0000"}`, `{"v":"meta.k8s.io/v1","rv":0,"start":""}`,
		`{"v":"meta.k8s.io/v1","rv":7,"start":"../../clusters/shop/edit"}`, `{"v":"meta.k8s.io/v1","rv":9223372036854775808,"start":"a"}`, `{"v":"v2","rv":7}`, `{`,
	} {
		f.Add(base64.RawURLEncoding.EncodeToString([]byte(token)), int64(2))
	}
	f.Add("/", int64(0))
	all := rolesNamed("admin", "edit", "system:a", "system:a:b", "view")
	f.Fuzz(func(t *testing.T, token string, limit int64) {
		o := listing(limit, token, "")
		after, wide, err := position(o)
		if err != nil {
			if !apierrors.IsBadRequest(err) {
				t.Fatalf("%q: %v", token, err)
			}
			return
		}
		if wide.Predicate.Continue != "" || wide.Predicate.Limit != 0 {
			t.Fatalf("%q: the storage below is asked for %+v", token, wide.Predicate)
		}
		version, versionErr := strconv.ParseInt(wide.ResourceVersion, 10, 64)
		exact := wide.ResourceVersionMatch == metav1.ResourceVersionMatchExact
		if exact != (wide.ResourceVersion != "") || exact && (versionErr != nil || version <= 0) || wide.ResourceVersionMatch != "" && !exact {
			t.Fatalf("%q: it is read at %q, %q", token, wide.ResourceVersion, wide.ResourceVersionMatch)
		}
		page, next, _, err := cut(all, after, "7", o)
		if err != nil {
			t.Fatalf("%q: %v", token, err)
		}
		if limit > 0 && int64(len(page)) > limit && token != "" {
			t.Errorf("%q: %d of %d", token, len(page), limit)
		}
		for _, obj := range page {
			if after != "" && nameOf(obj) <= after {
				t.Errorf("%q: %s comes after %q", token, nameOf(obj), after)
			}
		}
		if next == "" {
			return
		}
		then, _, err := position(listing(limit, next, ""))
		if err != nil || strings.Compare(then, after) <= 0 {
			t.Errorf("%q: it goes on with %q, after %q (%v)", token, then, after, err)
		}
	})
}
