package attack

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"runtime"
	"strconv"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	"k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-dev/atoll/pkg/scope"
)

const (
	// schemasMade definitions of schemaProperties each, of which no two are alike, are made,
	// and all their documents asked for, schemaRounds times.
	schemasMade, schemaProperties, schemaRounds = 24, 1000, 2
	// mostKept is what the heap may have grown by when they are gone: what is kept of
	// documents, and the definitions themselves in the history of watches.
	mostKept = 64 << 20
)

var schemas = Attack{
	Name: "a tenant that asks for the schemas of ever new definitions leaves a bounded heap",
	Fence: func(ctx context.Context, w *World) error {
		before, err := w.heap(ctx)
		if err != nil {
			return err
		}
		if err := w.schemas(ctx); err != nil {
			return err
		}
		return eventually(ctx, "when the definitions are gone", func() error {
			after, err := w.heap(ctx)
			if err == nil && after > before+mostKept {
				err = fmt.Errorf("the heap is %d MiB, before %d", after>>20, before>>20)
			}
			return err
		})
	},
	Control: func(context.Context, *World) error {
		if kept := parsed(); kept < mostKept {
			return fmt.Errorf("who kept all of them as upstream makes them would hold %d MiB only", kept>>20)
		}
		return nil
	},
}

// parsed is what the documents weigh that upstream makes of the definitions.
func parsed() int64 {
	var before, after runtime.MemStats
	var all []any
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range schemasMade * schemaRounds {
		crd := ownDefinition(fmt.Sprint("g", i, ".example.com"))
		v3, err := builder.BuildOpenAPIV3(crd, "v1", builder.Options{})
		v2, err2 := builder.BuildOpenAPIV2(crd, "v1", builder.Options{V2: true})
		if err != nil || err2 != nil {
			return 0
		}
		all = append(all, v2, v3)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(all)
	return int64(after.HeapAlloc) - int64(before.HeapAlloc)
}

// schemas makes definitions, asks for all documents of them, and removes them.
func (w *World) schemas(ctx context.Context) error {
	ctx, err := w.cluster(ctx)
	if err != nil {
		return err
	}
	who, err := w.tenant(ctx)
	if err != nil {
		return err
	}
	client, err := clientset.NewForConfig(scope.ScopedConfig(who.config))
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	definitions := client.ApiextensionsV1().CustomResourceDefinitions()
	c, _ := scope.ClusterFrom(ctx)
	prefix := "/clusters/" + c.String()
	for round := range schemaRounds {
		var paths []string
		for i := range schemasMade {
			group := fmt.Sprintf("r%d-%d.example.com", round, i)
			if _, err := definitions.Create(ctx, ownDefinition(group), metav1.CreateOptions{}); err != nil {
				return fmt.Errorf("creating a definition: %w", err)
			}
			paths = append(paths, prefix+"/openapi/v3/apis/"+group+"/v1")
		}
		for _, path := range append(paths, prefix+"/openapi/v2", prefix+"/openapi/v2", prefix+"/apis") {
			if _, err := drain(ctx, who.config, path); err != nil {
				return err
			}
		}
		if err := definitions.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
			return fmt.Errorf("removing the definitions: %w", err)
		}
	}
	return nil
}

// ownDefinition is like no other.
func ownDefinition(group string) *apiextensionsv1.CustomResourceDefinition {
	properties := map[string]apiextensionsv1.JSONSchemaProps{}
	for i := range schemaProperties {
		properties[fmt.Sprint("property-", i)] = apiextensionsv1.JSONSchemaProps{Type: "string", Description: "A property of " + group}
	}
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "widgets." + group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "widgets", Singular: "widget", Kind: "Widget", ListKind: "WidgetList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{
				OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": {Type: "object", Properties: properties}}},
			}}},
		},
	}
}

var heapAlloc = regexp.MustCompile(`(?m)^# HeapAlloc = (\d+)$`)

// heap is what is alive in the server.
func (w *World) heap(ctx context.Context) (n int64, err error) {
	root := scope.WithCluster(ctx, scope.Root)
	for range 3 { // finalizers and pools hold some of it for a collection or two
		body, err := w.admin.kube.Discovery().RESTClient().Get().AbsPath("/debug/pprof/heap").Param("debug", "1").Param("gc", "1").DoRaw(root)
		if err != nil {
			return 0, fmt.Errorf("reading the heap: %w", err)
		}
		found := heapAlloc.FindSubmatch(body)
		if found == nil {
			return 0, errors.New("the profile of the heap has no size")
		}
		if n, err = strconv.ParseInt(string(found[1]), 10, 64); err != nil {
			return 0, fmt.Errorf("reading the heap: %w", err)
		}
	}
	return n, nil
}
