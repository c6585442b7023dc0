package aggregation

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var exampleV1 = schema.GroupVersion{Group: "example.org", Version: "v1"}

func TestTargetsAreThoseOfTheTable(t *testing.T) {
	t.Parallel()
	resource := func(name, scope string, verbs ...string) apidiscoveryv2.APIResourceDiscovery {
		return apidiscoveryv2.APIResourceDiscovery{Resource: name, Scope: apidiscoveryv2.ResourceScope(scope), Verbs: verbs}
	}
	got := targets(exampleV1, []apidiscoveryv2.APIResourceDiscovery{
		resource("everywhere", "Cluster", "list", "delete", "deletecollection"),
		resource("readable", "Namespaced", "list", "deletecollection"),
		resource("fruits", "Namespaced", "list", "delete", "deletecollection"),
		resource("singles", "Namespaced", "list", "delete"),
		resource("blind", "Namespaced", "delete", "deletecollection"),
		resource("mute", "Namespaced", "delete"),
		resource("../secrets", "Namespaced", "list", "delete", "deletecollection"),
		resource("a?b", "Namespaced", "list", "delete"),
	})
	want := []target{
		{GroupVersionResource: exampleV1.WithResource("fruits"), collection: true, list: true},
		{GroupVersionResource: exampleV1.WithResource("singles"), list: true},
		{GroupVersionResource: exampleV1.WithResource("blind"), collection: true},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(target{})); diff != "" {
		t.Error(diff)
	}
	if got := want[0].path("web"); got != "/apis/example.org/v1/namespaces/web/fruits" {
		t.Errorf("the path is %s", got)
	}
}

func TestAPageIsReadWhateverTheServerSays(t *testing.T) {
	t.Parallel()
	many := strings.Repeat(`{"metadata":{"name":"a"}},`, pageSize+50)
	huge := `{"metadata":{"name":"` + strings.Repeat("x", maxPage) + `"}}`
	for title, c := range map[string]struct {
		body  string
		items int
		next  string
		err   error
	}{
		"a list":              {body: `{"kind":"FruitList","metadata":{"continue":"abc"},"items":[{"kind":"Fruit","metadata":{"name":"a","uid":"1"},"spec":{"x":[1]}},{"metadata":{"name":"b"}}]}`, items: 2, next: "abc"},
		"metadata at the end": {body: `{"items":[{"metadata":{"name":"a"}}],"metadata":{"continue":"abc"}}`, items: 1, next: "abc"},
		"an empty list":       {body: `{"kind":"FruitList","items":[]}`},
		"no items":            {body: `{"kind":"FruitList","items":null}`},
		"more than asked for": {body: `{"items":[` + many, items: pageSize},
		"a large object":      {body: `{"items":[` + huge + `]}`, err: errTooLarge},
		"a large second one":  {body: `{"items":[{"metadata":{"name":"a"}},` + huge + `]}`, items: 1},
		"a long token":        {body: `{"metadata":{"continue":"` + strings.Repeat("x", maxToken+1) + `"},"items":[]}`},
		"an object":           {body: `{"kind":"Fruit","metadata":{"name":"a"}}`, err: errNoList},
		"a page for people":   {body: `<html>`, err: errNoList},
		"nothing":             {err: errNoList},
		"half of it":          {body: `{"kind":"FruitList","ite`, err: errNoList},
		"items of no use":     {body: `{"items":"many"}`, err: errNoList},
		"an array":            {body: `[]`, err: errNoList},
	} {
		got, err := readPage(strings.NewReader(c.body))
		if !errors.Is(err, c.err) || len(got.items) != c.items || got.next != c.next {
			t.Errorf("%s: %d items, %q, %v", title, len(got.items), got.next, err)
		}
	}
	got, err := readPage(strings.NewReader(`{"items":[{"metadata":{"name":"a","uid":"1","labels":{"x":"y"},"finalizers":["f"]}}]}`))
	want := []metav1.PartialObjectMetadata{{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "1", Finalizers: []string{"f"}}}}
	if diff := cmp.Diff(want, got.items); diff != "" || err != nil {
		t.Errorf("%s, %v", diff, err)
	}
}

func TestWhatIsReportedOfANamespaceIsShortWhateverServersSay(t *testing.T) {
	t.Parallel()
	var out swept
	var items []metav1.PartialObjectMetadata
	for i := range 50 {
		long := fmt.Sprint(i, strings.Repeat("é", 1000))
		items = append(items, metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: long, Finalizers: []string{long, long}}})
	}
	size := 0
	for i := range 200 {
		gvr := exampleV1.WithResource(fmt.Sprint("fruits", i))
		if i%2 == 0 {
			out.leave(gvr, items)
		} else {
			out.fail(gvr, errors.New(strings.Repeat("\xff", 1<<20)))
		}
	}
	for _, left := range out.left {
		finalizers := map[string]bool{}
		for _, item := range left {
			size += len(item.Name)
			for _, f := range item.Finalizers {
				finalizers[f] = true
				size += len(f)
			}
		}
		if len(left) != len(items) || len(finalizers) != maxFinalizers {
			t.Errorf("%d of %d objects, %d finalizers", len(left), len(items), len(finalizers))
		}
	}
	for _, err := range out.failed {
		size += len(err.Error())
	}
	if n := len(out.left) + len(out.failed); n != maxReported || size > 64<<10 {
		t.Errorf("%d are reported, in %d bytes", n, size)
	}
}

func TestARefusalSaysWhatTheServerSaid(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"kind":"Status","message":"you must not"}`: "DELETE is answered 403: you must not",
		"  plain\n": "DELETE is answered 403: plain",
		"":          "DELETE is answered 403: ",
	} {
		if diff := cmp.Diff(want, refusal("DELETE", 403, []byte(body)).Error()); diff != "" {
			t.Error(diff)
		}
	}
	if got := refusal("DELETE", 500, []byte(strings.Repeat("x", 1<<20))).Error(); len(got) > 2*maxText {
		t.Errorf("%d characters", len(got))
	}
}

func TestANameIsOneStepOfAPath(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{"a": true, "system:a b?c": true, "": false, "..": false, "a/b": false, "a%2fb": false, strings.Repeat("x", 300): false} {
		if segment(name) != want {
			t.Errorf("%q is %v", name, !want)
		}
	}
}
