package placedkinds

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	metadatafake "k8s.io/client-go/metadata/fake"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	tenancyv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/tenancy/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/copyindex"
	"github.com/atoll-dev/atoll/pkg/generated/clientset/versioned/fake"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// informer is one that has a list.
func informer[T controller.Object](t *testing.T, example runtime.Object, list runtime.Object, o controller.InformerOptions[T]) *controller.Informer[T] {
	t.Helper()
	i := controller.NewInformer(t.Name(), example, controller.ListWatch{
		List:  func(context.Context, metav1.ListOptions) (runtime.Object, error) { return list, nil },
		Watch: func(context.Context, metav1.ListOptions) (watch.Interface, error) { return watch.NewFake(), nil },
	}, o)
	go i.Run(t.Context())
	if err := i.WaitForSync(t.Context()); err != nil {
		t.Fatal(err)
	}
	return i
}

func declaration(resource, kind string) fleetv1alpha1.PlacedKind {
	p := fleetv1alpha1.PlacedKind{Spec: fleetv1alpha1.PlacedKindSpec{
		Version: "v1", Kind: kind, LogicalClusters: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "shop"}},
	}}
	p.Name, p.Annotations = resource+".example.com", map[string]string{logicalcluster.AnnotationKey: "root"}
	p.Finalizers = []string{fleetv1alpha1.KindInUseFinalizer}
	return p
}

func clusterCalled(name string, labels map[string]string) tenancyv1alpha1.LogicalCluster {
	return tenancyv1alpha1.LogicalCluster{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels, Annotations: map[string]string{logicalcluster.AnnotationKey: "root"}}}
}

// definitions are those of logical clusters, by cluster and resource.
type definitions map[string]*apiextensionsv1.CustomResourceDefinition

func (d definitions) Defined(cluster logicalcluster.Name, gr schema.GroupResource) *apiextensionsv1.CustomResourceDefinition {
	return d[cluster.String()+"/"+gr.Resource]
}

func (d definitions) DefinedIn(gr schema.GroupResource) []logicalcluster.Name {
	var out []logicalcluster.Name
	for _, cluster := range []logicalcluster.Name{"bar", "shop"} {
		if d.Defined(cluster, gr) != nil {
			out = append(out, cluster)
		}
	}
	return out
}

func defined(kind string) *apiextensionsv1.CustomResourceDefinition {
	d := &apiextensionsv1.CustomResourceDefinition{}
	d.Spec.Names.Kind, d.Spec.Scope = kind, apiextensionsv1.NamespaceScoped
	d.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{{
		Name: "v1", Served: true, Storage: true, Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
	}}
	return d
}

// newCatalog is one with what is declared, where shop is selected and bar is not.
func newCatalog(t *testing.T, d Definitions, kinds ...fleetv1alpha1.PlacedKind) (*Catalog, *controller.Informer[*fleetv1alpha1.PlacedKind]) {
	t.Helper()
	declarations := informer(t, &fleetv1alpha1.PlacedKind{}, &fleetv1alpha1.PlacedKindList{Items: kinds}, controller.InformerOptions[*fleetv1alpha1.PlacedKind]{})
	clusters := informer(t, &tenancyv1alpha1.LogicalCluster{}, &tenancyv1alpha1.LogicalClusterList{Items: []tenancyv1alpha1.LogicalCluster{
		clusterCalled("shop", map[string]string{"team": "shop"}), clusterCalled("bar", nil),
	}}, controller.InformerOptions[*tenancyv1alpha1.LogicalCluster]{})
	c := NewCatalog(workload.Builtin())
	c.Follow(declarations, clusters)
	c.Consult(d)
	return c, declarations
}

var widgets = schema.GroupResource{Group: "example.com", Resource: "widgets"}

func TestAKindIsPlacedWhereItIsSelectedAndItsDefinitionSuits(t *testing.T) {
	deleted := declaration("widgets", "Widget")
	deleted.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	for name, c := range map[string]struct {
		declaration fleetv1alpha1.PlacedKind
		definitions definitions
		cluster     logicalcluster.Name
		want        bool
	}{
		"all holds":           {declaration("widgets", "Widget"), definitions{"shop/widgets": defined("Widget")}, "shop", true},
		"not selected":        {declaration("widgets", "Widget"), definitions{"bar/widgets": defined("Widget")}, "bar", false},
		"unknown":             {declaration("widgets", "Widget"), definitions{"none/widgets": defined("Widget")}, "none", false},
		"of the admin":        {declaration("widgets", "Widget"), definitions{"root/widgets": defined("Widget")}, "root", false},
		"being deleted":       {deleted, definitions{"shop/widgets": defined("Widget")}, "shop", false},
		"not defined":         {declaration("widgets", "Widget"), definitions{}, "shop", false},
		"defined differently": {declaration("widgets", "Widget"), definitions{"shop/widgets": defined("Gadget")}, "shop", false},
	} {
		t.Run(name, func(t *testing.T) {
			catalog, _ := newCatalog(t, c.definitions, c.declaration)
			kind, ok := catalog.Current().ByResource(widgets)
			if !ok {
				t.Fatal("it is not in the catalog: what is placed would not be handled")
			}
			if got := catalog.Places(c.cluster, kind); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func TestALogicalClusterHasTheDeclaredKindsThatItServes(t *testing.T) {
	catalog, _ := newCatalog(t, definitions{"shop/widgets": defined("Widget"), "bar/widgets": defined("Widget"), "bar/gadgets": defined("Gadget")},
		declaration("widgets", "Widget"), declaration("gadgets", "Gadget"))
	for cluster, want := range map[logicalcluster.Name][]string{"shop": {"widgets"}, "bar": {"gadgets", "widgets"}, "none": nil} {
		var got []string
		for _, kind := range catalog.In(cluster).Declared() {
			got = append(got, kind.Resource)
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s has %v, want %v", cluster, got, want)
		}
		if once, again := catalog.In(cluster), catalog.In(cluster); once != again {
			t.Errorf("%s: the same kinds make another catalog", cluster)
		}
	}
}

func TestADeclarationEndsOnlyAfterTheServerHasShownThatNothingIsLeft(t *testing.T) {
	deleted := declaration("widgets", "Widget")
	deleted.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	object := &metav1.PartialObjectMetadata{
		TypeMeta: metav1.TypeMeta{APIVersion: "example.com/v1", Kind: "Widget"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "a", Annotations: map[string]string{
			logicalcluster.AnnotationKey: "bar", placementv1alpha1.TargetsAnnotation: `{"east":{}}`}},
	}
	left := &placementv1alpha1.Copy{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "a-east"}}
	left.Spec.Object.Group, left.Spec.Object.Resource = "example.com", "widgets"
	for name, c := range map[string]struct {
		objects, copies []runtime.Object
		ends            bool
	}{
		"an object that no informer has": {[]runtime.Object{object}, nil, false},
		"a Copy that no informer has":    {nil, []runtime.Object{left}, false},
		"nothing":                        {nil, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			scheme := metadatafake.NewTestScheme()
			if err := metav1.AddMetaToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			d := definitions{"bar/widgets": defined("Widget")}
			catalog, declarations := newCatalog(t, d, deleted)
			client := fake.NewSimpleClientset(append(slices.Clone(c.copies), &deleted)...)
			s := New(Config{
				Client: client, Metadata: metadatafake.NewSimpleMetadataClient(scheme, c.objects...), Catalog: catalog, Definitions: d, Kinds: declarations,
				PhysicalClusters: informer(t, &fleetv1alpha1.PhysicalCluster{}, &fleetv1alpha1.PhysicalClusterList{}, controller.InformerOptions[*fleetv1alpha1.PhysicalCluster]{}),
				Copies:           informer(t, &placementv1alpha1.Copy{}, &placementv1alpha1.CopyList{}, controller.InformerOptions[*placementv1alpha1.Copy]{Indexers: copyindex.Indexers()}),
				Objects:          controller.NewMetadata(nil, nil, nil),
			})
			if _, err := s.reconcile(t.Context(), controller.Request{Cluster: "root", Name: deleted.Name}); err != nil {
				t.Fatal(err)
			}
			got, err := client.FleetV1alpha1().PlacedKinds().Get(t.Context(), deleted.Name, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if ended := len(got.Finalizers) == 0; ended != c.ends {
				t.Errorf("ended: %v, want %v; the conditions are %+v", ended, c.ends, got.Status.Conditions)
			}
		})
	}
}
