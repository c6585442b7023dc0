package customresources

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"

	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/test/framework/server"
)

func TestAResourceIsServedWhenItsDefinitionIsStored(t *testing.T) {
	s := server.Start(t)
	ctx := s.NewCluster(t, "one")
	for i := range 5 { // no wait, no retry
		crd := definition(sized())
		crd.Spec.Group = fmt.Sprintf("g%d.example.com", i)
		crd.Name = "widgets." + crd.Spec.Group
		define(ctx, t, s, crd)
		gvr := widgets
		gvr.Group = crd.Spec.Group
		obj := widget("w", map[string]any{"size": int64(1)})
		obj.SetAPIVersion(gvr.GroupVersion().String())
		if _, err := s.Dynamic.Resource(gvr).Namespace("default").Create(ctx, obj, metav1.CreateOptions{}); err != nil {
			t.Fatalf("creating an object right after its definition: %v", err)
		}
	}
}

func TestEqualNamesWithDifferentSchemasDoNotMeet(t *testing.T) {
	s := server.Start(t)
	one, two, three := s.NewCluster(t, "one"), s.NewCluster(t, "two"), s.NewCluster(t, "three")
	define(one, t, s, definition(sized()))
	define(two, t, s, definition(map[string]apiextensionsv1.JSONSchemaProps{"size": {Type: "string"}, "colour": {Type: "string"}}))

	if _, err := widgetsOf(s).Create(one, widget("w", map[string]any{"size": int64(3), "colour": "red"}), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := widgetsOf(s).Create(two, widget("w", map[string]any{"size": "large", "colour": "red"}), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := widgetsOf(s).Create(one, widget("bad", map[string]any{"size": "large"}), metav1.CreateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("the schema of two would take it, that of one must not: %v", err)
	}
	for _, read := range []struct {
		name string
		get  func(context.Context) (*unstructured.Unstructured, error)
	}{
		{"get", func(ctx context.Context) (*unstructured.Unstructured, error) {
			return widgetsOf(s).Get(ctx, "w", metav1.GetOptions{})
		}},
		{"list", func(ctx context.Context) (*unstructured.Unstructured, error) {
			list, err := widgetsOf(s).List(ctx, metav1.ListOptions{})
			if err != nil {
				return nil, err
			}
			if names(list) != "[w]" {
				return nil, fmt.Errorf("listed %s", names(list))
			}
			return &list.Items[0], nil
		}},
		{"watch", func(ctx context.Context) (*unstructured.Unstructured, error) {
			w, err := widgetsOf(s).Watch(ctx, metav1.ListOptions{})
			if err != nil {
				return nil, err
			}
			defer w.Stop()
			select {
			case e := <-w.ResultChan():
				if e.Type != watch.Added {
					return nil, fmt.Errorf("got %v", e)
				}
				return e.Object.(*unstructured.Unstructured), nil
			case <-time.After(10 * time.Second):
				return nil, fmt.Errorf("no event")
			}
		}},
	} {
		a, err := read.get(one)
		if err != nil {
			t.Fatalf("%s in one: %v", read.name, err)
		}
		if _, found, _ := unstructured.NestedString(a.Object, "spec", "colour"); found {
			t.Errorf("%s in one: a field that its schema does not have was kept", read.name)
		}
		b, err := read.get(two)
		if err != nil {
			t.Fatalf("%s in two: %v", read.name, err)
		}
		if size, _, _ := unstructured.NestedString(b.Object, "spec", "size"); size != "large" {
			t.Errorf("%s in two: spec.size is %q, not large", read.name, size)
		}
	}
	if _, err := widgetsOf(s).List(three, metav1.ListOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("three has no such resource: %v", err)
	}
}

func TestAWatchSeesOnlyItsLogicalCluster(t *testing.T) {
	s := server.Start(t)
	one, two := s.NewCluster(t, "one"), s.NewCluster(t, "two")
	define(one, t, s, definition(sized()))
	define(two, t, s, definition(sized()))
	w, err := widgetsOf(s).Watch(one, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	for _, ctx := range []context.Context{two, one} {
		if _, err := widgetsOf(s).Create(ctx, widget("w", map[string]any{"size": int64(1)}), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := widgetsOf(s).Delete(two, "w", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := widgetsOf(s).Delete(one, "w", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []watch.EventType{watch.Added, watch.Deleted} {
		select {
		case e := <-w.ResultChan():
			m, ok := e.Object.(*unstructured.Unstructured)
			if e.Type != want || !ok || m.GetAnnotations()["kcp.io/cluster"] != "one" {
				t.Fatalf("got %v %v, want %v of one", e.Type, e.Object, want)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("no %v", want)
		}
	}
}

func TestDiscoveryShowsWhatTheLogicalClusterDefines(t *testing.T) {
	s := server.Start(t)
	one, two := s.NewCluster(t, "one"), s.NewCluster(t, "two")
	define(one, t, s, definition(sized()))

	client := func(ctx context.Context) *discovery.DiscoveryClient {
		c, _ := scope.From(ctx)
		return discovery.NewDiscoveryClientForConfigOrDie(scope.PinnedConfig(s.Config, c))
	}
	_, lists, err := client(one).ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, l := range lists {
		for _, r := range l.APIResources {
			found[l.GroupVersion+"/"+r.Name] = true
		}
	}
	for _, want := range []string{"example.com/v1/widgets", "example.com/v1/widgets/status", "example.com/v1/widgets/scale", "apps/v1/deployments", "apiextensions.k8s.io/v1/customresourcedefinitions"} {
		if !found[want] {
			t.Errorf("aggregated discovery lacks %s", want)
		}
	}
	if _, err := client(one).ServerResourcesForGroupVersion("example.com/v1"); err != nil {
		t.Errorf("legacy discovery: %v", err)
	}
	if _, err := client(two).ServerResourcesForGroupVersion("example.com/v1"); !apierrors.IsNotFound(err) {
		t.Errorf("legacy discovery of two: %v", err)
	}
	groups, err := client(two).ServerGroups()
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range groups.Groups {
		if g.Name == "example.com" {
			t.Error("two shows the group of one")
		}
	}
	paths, err := client(one).OpenAPIV3().Paths()
	if err != nil {
		t.Fatal(err)
	}
	gv := paths["apis/example.com/v1"]
	if gv == nil || paths["apis/apps/v1"] == nil {
		t.Fatalf("the index of OpenAPI v3 has %d paths, not the one of the definition or the built-in ones", len(paths))
	}
	for _, contentType := range []string{"application/json", "application/com.github.proto-openapi.spec.v3@v1.0+protobuf"} {
		if data, err := gv.Schema(contentType); err != nil || len(data) < 100 {
			t.Errorf("OpenAPI v3 as %s: %d bytes, %v", contentType, len(data), err)
		}
	}
	v2, err := client(one).OpenAPISchema()
	if err != nil {
		t.Fatal(err)
	}
	has := map[string]bool{}
	for _, d := range v2.Definitions.AdditionalProperties {
		has[d.Name] = true
	}
	if !has["com.example.v1.Widget"] || !has["io.k8s.api.apps.v1.Deployment"] {
		t.Error("OpenAPI v2 lacks the definition or the built-in types")
	}
}

func TestARestartKeepsCustomResources(t *testing.T) {
	dir := t.TempDir()
	s := server.StartIn(t, dir)
	clusters := []string{"one", "two", "three"}
	for _, name := range clusters {
		ctx := s.NewCluster(t, name)
		define(ctx, t, s, definition(sized()))
		for _, obj := range []string{"a", "b"} {
			if _, err := widgetsOf(s).Create(ctx, widget(obj, map[string]any{"size": int64(1)}), metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	s.Stop(t)
	s = server.StartIn(t, dir)
	for _, name := range clusters {
		ctx := scope.WithCluster(t.Context(), logicalcluster.Name(name))
		for _, rv := range []string{"", "0"} {
			list, err := widgetsOf(s).List(ctx, metav1.ListOptions{ResourceVersion: rv})
			if err != nil {
				t.Fatal(err)
			}
			if names(list) != "[a b]" {
				t.Errorf("%s at resource version %q: %s", name, rv, names(list))
			}
		}
	}
}
