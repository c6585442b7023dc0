package main

import (
	"context"
	"fmt"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	tenancyv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/tenancy/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/scope"
)

// defined is how many definitions are timed on each side.
const defined = 30

// definer makes definitions and objects of them at one server.
type definer struct {
	crds    clientset.Interface
	objects dynamic.Interface
}

// newDefiner works in the logical cluster of the context of each call, or in a stock
// cluster.
func newDefiner(s *server, config *rest.Config) (*definer, error) {
	crds, err := clientset.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client of %s: %w", s.name, err)
	}
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client of %s: %w", s.name, err)
	}
	return &definer{crds: crds, objects: objects}, nil
}

// definitionsPart measures how long it takes from the request that stores a
// definition to the first object of it that is accepted.
func definitionsPart(ctx context.Context, l *lab, _ options) error {
	ours, err := l.startAtoll(ctx, "atoll")
	if err != nil {
		return err
	}
	stock, err := l.startStock(ctx, "stock", 1)
	if err != nil {
		return err
	}
	_, own, err := ours.scoped()
	if err != nil {
		return err
	}
	const name = logicalcluster.Name("bench")
	cluster := &tenancyv1alpha1.LogicalCluster{ObjectMeta: metav1.ObjectMeta{Name: name.String()}}
	if _, err := own.TenancyV1alpha1().LogicalClusters().Create(inCluster(ctx, scope.Root), cluster, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("creating a logical cluster: %w", err)
	}
	t := newTable("side", "create a definition, then its first object is accepted: ms p50", "ratio", "p99")
	var base time.Duration
	for _, side := range []struct {
		name   string
		at     *server
		config *rest.Config
		ctx    context.Context
	}{{"stock", stock, stock.config, ctx}, {"atoll", ours, scope.ScopedConfig(ours.config), inCluster(ctx, name)}} {
		d, err := newDefiner(side.at, side.config)
		if err != nil {
			return err
		}
		var took []time.Duration
		for i := range defined {
			one, err := d.first(side.ctx, i)
			if err != nil {
				return fmt.Errorf("%s: %w", side.name, err)
			}
			took = append(took, one)
		}
		ratio := ""
		if base == 0 {
			base = median(took)
		} else {
			ratio = times(float64(median(took)) / float64(base))
		}
		t.add(side.name, ms(median(took)), ratio, ms(percentile(took, 99)))
	}
	t.print()
	return nil
}

// first stores the definition number i and asks until an object is accepted.
func (d *definer) first(ctx context.Context, i int) (time.Duration, error) {
	began := time.Now()
	gvr, err := d.define(ctx, i)
	if err != nil {
		return 0, err
	}
	for {
		err := d.create(ctx, gvr, "first")
		if err == nil {
			return time.Since(began), nil
		}
		if !apierrors.IsNotFound(err) || time.Since(began) > time.Minute {
			return 0, fmt.Errorf("creating the first object: %w", err)
		}
		if err := pause(ctx, time.Millisecond); err != nil {
			return 0, err
		}
	}
}

// define stores the definition number i: a schema with some depth and a rule.
func (d *definer) define(ctx context.Context, i int) (schema.GroupVersionResource, error) {
	group := fmt.Sprintf("g%d.example.com", i)
	text := apiextensionsv1.JSONSchemaProps{Type: "string", MaxLength: new(int64(64))}
	properties := map[string]apiextensionsv1.JSONSchemaProps{"name": text, "size": {Type: "integer"}}
	for n := range 20 {
		properties[fmt.Sprintf("part%d", n)] = apiextensionsv1.JSONSchemaProps{
			Type: "object", Description: "A part of the widget, of which the schema says something.",
			Properties: map[string]apiextensionsv1.JSONSchemaProps{"colour": text, "weight": {Type: "number"}, "tags": {
				Type: "array", MaxItems: new(int64(10)), Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &text},
			}},
		}
	}
	crd := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "widgets." + group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group, Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "widgets", Singular: "widget", Kind: "Widget", ListKind: "WidgetList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true, Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
						"spec": {Type: "object", Properties: properties, XValidations: apiextensionsv1.ValidationRules{{Rule: "!has(self.size) || self.size >= 0"}}},
					},
				}},
			}},
		},
	}
	_, err := d.crds.ApiextensionsV1().CustomResourceDefinitions().Create(ctx, crd, metav1.CreateOptions{})
	if err != nil {
		err = fmt.Errorf("creating a definition: %w", err)
	}
	return schema.GroupVersionResource{Group: group, Version: "v1", Resource: "widgets"}, err
}

func (d *definer) create(ctx context.Context, gvr schema.GroupVersionResource, name string) error {
	obj := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": gvr.GroupVersion().String(), "kind": "Widget", "metadata": map[string]any{"name": name},
		"spec": map[string]any{"name": name, "size": int64(1)},
	}}
	_, err := d.objects.Resource(gvr).Namespace(metav1.NamespaceDefault).Create(ctx, obj, metav1.CreateOptions{})
	return err
}
