package customresources

import (
	"context"
	"fmt"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/test/framework/server"
)

func TestDefinitionsThatAreDeletedTogetherTakeTheirObjectsAlong(t *testing.T) {
	s := server.Start(t)
	everywhere := scope.WithCluster(t.Context(), scope.Wildcard)
	left := func() error {
		list, err := s.Dynamic.Resource(widgets).List(everywhere, metav1.ListOptions{})
		if err == nil && names(list) != "[kept]" {
			return fmt.Errorf("there are %s", names(list))
		}
		return err
	}
	fill := func(ctx context.Context, name string) {
		crd := definition(sized())
		crd.Spec.Scope = apiextensionsv1.ClusterScoped
		define(ctx, t, s, crd)
		w := widget(name, nil)
		w.SetNamespace("")
		if _, err := s.Dynamic.Resource(widgets).Create(ctx, w, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	fill(s.NewCluster(t, "other"), "kept")
	one := s.NewCluster(t, "one")
	fill(one, "a")
	if err := definitions(s).ApiextensionsV1().CustomResourceDefinitions().DeleteCollection(one, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	server.Eventually(t, 20*time.Second, "the objects go", left)

	fill(s.NewCluster(t, "two"), "b")
	root := scope.WithCluster(t.Context(), scope.Root)
	clusters := s.Atoll.TenancyV1alpha1().LogicalClusters()
	if err := clusters.Delete(root, "two", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	server.Eventually(t, 30*time.Second, "the logical cluster goes", func() error {
		if lc, err := clusters.Get(root, "two", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there: %v, %v", lc.Status.Conditions, err)
		}
		return left()
	})
}
