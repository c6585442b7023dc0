package customresources

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/test/framework/server"
)

func TestADeletedDefinitionTakesItsOwnObjectsAlong(t *testing.T) {
	s := server.Start(t)
	one, two := s.NewCluster(t, "one"), s.NewCluster(t, "two")
	for _, ctx := range []context.Context{one, two} {
		define(ctx, t, s, definition(sized()))
		for i := range 3 {
			if _, err := widgetsOf(s).Create(ctx, widget(fmt.Sprint("w", i), nil), metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	crds := definitions(s).ApiextensionsV1().CustomResourceDefinitions()
	if err := crds.Delete(one, "widgets.example.com", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	server.Eventually(t, 20*time.Second, "the definition goes", func() error {
		_, err := crds.Get(one, "widgets.example.com", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("still there: %v", err)
	})
	if list, err := widgetsOf(s).List(two, metav1.ListOptions{}); err != nil || len(list.Items) != 3 {
		t.Errorf("the objects of the other logical cluster: %v, %v", list, err)
	}
	define(one, t, s, definition(sized()))
	if list, err := widgetsOf(s).List(one, metav1.ListOptions{}); err != nil || len(list.Items) != 0 {
		t.Errorf("objects of the definition that was deleted: %v, %v", list, err)
	}
}

func TestADefinitionWaitsForTheFinalizersOfItsObjects(t *testing.T) {
	s := server.Start(t)
	ctx := s.NewCluster(t, "one")
	define(ctx, t, s, definition(sized()))
	held := widget("held", nil)
	held.SetFinalizers([]string{"example.com/held"})
	if _, err := widgetsOf(s).Create(ctx, held, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	crds := definitions(s).ApiextensionsV1().CustomResourceDefinitions()
	if err := crds.Delete(ctx, "widgets.example.com", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := widgetsOf(s).Create(ctx, widget("late", nil), metav1.CreateOptions{}); err == nil {
		t.Error("an object was made of a definition that is being deleted")
	}
	server.Eventually(t, 20*time.Second, "the object is being deleted", func() error {
		obj, err := widgetsOf(s).Get(ctx, "held", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if obj.GetDeletionTimestamp() == nil {
			return fmt.Errorf("it is not")
		}
		return nil
	})
	if crd, err := crds.Get(ctx, "widgets.example.com", metav1.GetOptions{}); err != nil || !apihelpers.IsCRDConditionTrue(crd, apiextensionsv1.Terminating) {
		t.Errorf("the definition must be there, and Terminating: %v, %v", crd, err)
	}
	if _, err := widgetsOf(s).Patch(ctx, "held", "application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	server.Eventually(t, 20*time.Second, "the definition goes", func() error {
		if _, err := crds.Get(ctx, "widgets.example.com", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("still there: %v", err)
		}
		return nil
	})
}

func TestConflictingNamesAreRefusedUntilTheyAreFree(t *testing.T) {
	s := server.Start(t)
	one, two := s.NewCluster(t, "one"), s.NewCluster(t, "two")
	define(one, t, s, definition(sized()))
	rival := definition(sized())
	rival.Name, rival.Spec.Names.Plural, rival.Spec.Names.Singular = "gadgets.example.com", "gadgets", "gadget"
	rival.Spec.Names.ShortNames = nil // the kind is that of widgets
	define(one, t, s, rival.DeepCopy())
	define(two, t, s, rival.DeepCopy())
	crds := definitions(s).ApiextensionsV1().CustomResourceDefinitions()
	refused, err := crds.Get(one, rival.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if c := apihelpers.FindCRDCondition(refused, apiextensionsv1.NamesAccepted); c == nil || c.Status != apiextensionsv1.ConditionFalse {
		t.Errorf("the kind is taken in one: %v", refused.Status.Conditions)
	}
	if fine, err := crds.Get(two, rival.Name, metav1.GetOptions{}); err != nil || !apihelpers.IsCRDConditionTrue(fine, apiextensionsv1.Established) {
		t.Errorf("the kind is free in two: %v, %v", fine, err)
	}
	if err := crds.Delete(one, "widgets.example.com", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	server.Eventually(t, 20*time.Second, "the names are free", func() error {
		now, err := crds.Get(one, rival.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if !apihelpers.IsCRDConditionTrue(now, apiextensionsv1.Established) {
			return fmt.Errorf("conditions: %v", now.Status.Conditions)
		}
		return nil
	})
}

func TestOwnersAndDependentsOfCustomKindsAreCollected(t *testing.T) {
	s := server.Start(t)
	ctx := s.NewCluster(t, "one")
	old := definition(sized())
	old.Spec.Versions[0].Name = "v1beta1" // not the version that other logical clusters have
	define(ctx, t, s, old)
	define(s.NewCluster(t, "two"), t, s, definition(sized()))
	betas := widgets.GroupResource().WithVersion("v1beta1")
	parent := widget("parent", nil)
	parent.SetAPIVersion("example.com/v1beta1")
	client := s.Dynamic.Resource(betas).Namespace("default")
	parent, err := client.Create(ctx, parent, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	owner := metav1.OwnerReference{APIVersion: "example.com/v1beta1", Kind: "Widget", Name: "parent", UID: parent.GetUID()}
	child := widget("child", nil)
	child.SetAPIVersion("example.com/v1beta1")
	child.SetOwnerReferences([]metav1.OwnerReference{owner})
	if _, err := client.Create(ctx, child, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "child", OwnerReferences: []metav1.OwnerReference{owner}}}
	if _, err := s.Kube.CoreV1().ConfigMaps("default").Create(ctx, config, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := client.Delete(ctx, "parent", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	server.Eventually(t, 30*time.Second, "dependents go", func() error {
		_, a := client.Get(ctx, "child", metav1.GetOptions{})
		_, b := s.Kube.CoreV1().ConfigMaps("default").Get(ctx, "child", metav1.GetOptions{})
		if !apierrors.IsNotFound(a) || !apierrors.IsNotFound(b) {
			return fmt.Errorf("custom: %v, built-in: %v", a, b)
		}
		return nil
	})
}

func TestANamespaceAndALogicalClusterEndWithTheirCustomResources(t *testing.T) {
	s := server.Start(t)
	ctx := s.NewCluster(t, "one")
	define(ctx, t, s, definition(sized()))
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
	if _, err := s.Kube.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	obj := widget("w", nil)
	obj.SetNamespace("web")
	web := s.Dynamic.Resource(widgets).Namespace("web")
	if _, err := web.Create(ctx, obj, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := s.Kube.CoreV1().Namespaces().Delete(ctx, "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	server.Eventually(t, 30*time.Second, "the namespace goes", func() error {
		if _, err := s.Kube.CoreV1().Namespaces().Get(ctx, "web", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("still there: %v", err)
		}
		return nil
	})
	if list, err := web.List(ctx, metav1.ListOptions{}); err != nil || len(list.Items) != 0 {
		t.Errorf("left of the namespace: %v, %v", list, err)
	}
	if _, err := widgetsOf(s).Create(ctx, widget("w", nil), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	root := scope.WithCluster(t.Context(), scope.Root)
	clusters := s.Atoll.TenancyV1alpha1().LogicalClusters()
	if err := clusters.Delete(root, "one", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	server.Eventually(t, 60*time.Second, "the logical cluster goes", func() error {
		now, err := clusters.Get(root, "one", metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("still there: %v, %v", now.Status.Conditions, err)
		}
		return nil
	})
	again := s.NewCluster(t, "one")
	define(again, t, s, definition(sized()))
	if list, err := widgetsOf(s).List(again, metav1.ListOptions{}); err != nil || len(list.Items) != 0 {
		t.Errorf("left of the logical cluster of that name: %v, %v", list, err)
	}
}

func TestAWatchEndsWhenItsDefinitionChanges(t *testing.T) {
	s := server.Start(t)
	one, two := s.NewCluster(t, "one"), s.NewCluster(t, "two")
	define(one, t, s, definition(sized()))
	define(two, t, s, definition(sized()))
	changed, err := widgetsOf(s).Watch(one, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	same, err := widgetsOf(s).Watch(two, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer same.Stop()
	crds := definitions(s).ApiextensionsV1().CustomResourceDefinitions()
	crd, err := crds.Get(one, "widgets.example.com", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"].Properties["weight"] = apiextensionsv1.JSONSchemaProps{Type: "integer"}
	if _, err := crds.Update(one, crd, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	select {
	case e, open := <-changed.ResultChan():
		if open {
			t.Errorf("got %v", e)
		}
	case <-time.After(10 * time.Second):
		t.Error("the watch of the definition that changed goes on")
	}
	if _, err := widgetsOf(s).Create(two, widget("w", nil), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	select {
	case e, open := <-same.ResultChan():
		if !open || e.Type != watch.Added {
			t.Errorf("the watch of the other logical cluster: %v", e)
		}
	case <-time.After(10 * time.Second):
		t.Error("the watch of the other logical cluster shows nothing")
	}
}

func TestADefinitionThatIsMadeAgainAtOnceIsServed(t *testing.T) {
	s := server.Start(t)
	ctx := s.NewCluster(t, "one")
	crds := definitions(s).ApiextensionsV1().CustomResourceDefinitions()
	for i := range 5 {
		define(ctx, t, s, definition(sized()))
		if _, err := widgetsOf(s).Create(ctx, widget("w", nil), metav1.CreateOptions{}); err != nil {
			t.Fatalf("round %d: %v", i, err)
		}
		if list, err := widgetsOf(s).List(ctx, metav1.ListOptions{}); err != nil || names(list) != "[w]" {
			t.Fatalf("round %d: %v, %v", i, list, err)
		}
		if err := crds.Delete(ctx, "widgets.example.com", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		server.Eventually(t, 20*time.Second, "the definition goes", func() error {
			if _, err := crds.Get(ctx, "widgets.example.com", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				return fmt.Errorf("still there: %v", err)
			}
			return nil
		})
	}
}

func TestANamespaceAndALogicalClusterEndWithoutTheirConversionWebhook(t *testing.T) {
	s := server.Start(t)
	ctx := s.NewCluster(t, "one")
	crd := definition(sized())
	newer := crd.Spec.Versions[0]
	newer.Name, newer.Storage = "v2", false
	crd.Spec.Versions = append(crd.Spec.Versions, newer)
	crd.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.WebhookConverter, Webhook: &apiextensionsv1.WebhookConversion{
		ClientConfig: &apiextensionsv1.WebhookClientConfig{Service: &apiextensionsv1.ServiceReference{Namespace: "web", Name: "gone"}}, ConversionReviewVersions: []string{"v1"},
	}}
	define(ctx, t, s, crd)
	if _, err := s.Kube.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "web"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, namespace := range []string{"web", metav1.NamespaceDefault} {
		obj := widget("w", nil)
		obj.SetNamespace(namespace)
		if _, err := s.Dynamic.Resource(widgets).Namespace(namespace).Create(ctx, obj, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	inNewer := s.Dynamic.Resource(widgets.GroupResource().WithVersion("v2")).Namespace("web")
	if _, err := inNewer.Get(ctx, "w", metav1.GetOptions{}); err == nil || !strings.Contains(err.Error(), `service`) {
		t.Errorf("without its webhook it is converted: %v", err)
	}
	if err := s.Kube.CoreV1().Namespaces().Delete(ctx, "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	server.Eventually(t, 30*time.Second, "the namespace goes", func() error {
		ns, err := s.Kube.CoreV1().Namespaces().Get(ctx, "web", metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("still there: %v, %v", ns.Status.Conditions, err)
		}
		return nil
	})
	root := scope.WithCluster(t.Context(), scope.Root)
	clusters := s.Atoll.TenancyV1alpha1().LogicalClusters()
	if err := clusters.Delete(root, "one", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	server.Eventually(t, 60*time.Second, "the logical cluster goes", func() error {
		now, err := clusters.Get(root, "one", metav1.GetOptions{})
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("still there: %v, %v", now.Status.Conditions, err)
		}
		return nil
	})
}
