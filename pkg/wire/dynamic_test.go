package wire_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/atoll-dev/atoll/pkg/wire"
)

var pods = schema.GroupVersionResource{Version: "v1", Resource: "pods"}

const (
	pod  = `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","resourceVersion":"7"},"spec":{"priority":3}}`
	gone = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410,"message":"too old"}`
)

// server answers every watch with the same events, and every get of b with 404.
func server(t *testing.T, agents *[]string) *httptest.Server {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*agents = append(*agents, r.UserAgent())
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.URL.Query().Get("watch") != "":
			fmt.Fprintf(w, `{"type":"ADDED","object":%s}`+"\n"+`{ "type": "DELETED", "object": %s }{"type":"ERROR","object":%s}`+"\n", pod, pod, gone)
		case r.URL.Path == "/api/v1/pods":
			fmt.Fprintf(w, `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"9"},"items":[%s]}`, pod)
		case r.URL.Path == "/api/v1/pods/b":
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`)
		default:
			fmt.Fprint(w, pod)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

func TestAClientSeesWhatTheStockOneSees(t *testing.T) {
	type seen struct {
		Got, Listed any
		Events      []watch.Event
		NotFound    bool
		Agents      []string
	}
	look := func(make func(*rest.Config) (dynamic.Interface, error)) (out seen) {
		client, err := make(&rest.Config{Host: server(t, &out.Agents).URL})
		if err != nil {
			t.Fatal(err)
		}
		ctx := t.Context()
		if out.Got, err = client.Resource(pods).Get(ctx, "a", metav1.GetOptions{}); err != nil {
			t.Fatal(err)
		}
		_, err = client.Resource(pods).Get(ctx, "b", metav1.GetOptions{})
		out.NotFound = apierrors.IsNotFound(err)
		if out.Listed, err = client.Resource(pods).List(ctx, metav1.ListOptions{}); err != nil {
			t.Fatal(err)
		}
		w, err := client.Resource(pods).Watch(ctx, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for event := range w.ResultChan() {
			out.Events = append(out.Events, event)
		}
		return out
	}
	want := look(func(c *rest.Config) (dynamic.Interface, error) { return dynamic.NewForConfig(c) })
	if len(want.Events) != 3 || !want.NotFound {
		t.Fatalf("the stock client sees %+v", want)
	}
	if diff := cmp.Diff(want, look(wire.NewDynamic)); diff != "" {
		t.Errorf("(-stock +ours):\n%s", diff)
	}
}
