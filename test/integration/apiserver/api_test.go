package apiserver

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/utils/ptr"

	"github.com/atoll-dev/atoll/pkg/scope"
)

func deploymentConfig(replicas int32) *appsv1ac.DeploymentApplyConfiguration {
	labels := map[string]string{"app": "web"}
	return appsv1ac.Deployment("web", "default").WithSpec(appsv1ac.DeploymentSpec().WithReplicas(replicas).
		WithSelector(metav1ac.LabelSelector().WithMatchLabels(labels)).
		WithTemplate(corev1ac.PodTemplateSpec().WithLabels(labels).WithSpec(corev1ac.PodSpec().
			WithContainers(corev1ac.Container().WithName("web").WithImage("nginx")))))
}

func TestServerSideApplyKeepsTheGenerationUntilTheSpecChanges(t *testing.T) {
	s := shared(t)
	ctx := s.NewCluster(t, "apply")
	deployments := s.Kube.AppsV1().Deployments("default")
	apply := func(replicas int32, manager string, force bool) (*appsv1.Deployment, error) {
		return deployments.Apply(ctx, deploymentConfig(replicas), metav1.ApplyOptions{FieldManager: manager, Force: force})
	}
	first, err := apply(2, "one", false)
	if err != nil {
		t.Fatal(err)
	}
	again, err := apply(2, "one", false)
	if err != nil {
		t.Fatal(err)
	}
	if again.ResourceVersion != first.ResourceVersion || again.Generation != 1 {
		t.Errorf("an apply of the same wrote version %s after %s, generation %d", again.ResourceVersion, first.ResourceVersion, again.Generation)
	}
	if _, err := apply(3, "two", false); !apierrors.IsConflict(err) {
		t.Errorf("another manager: %v, want Conflict", err)
	}
	if forced, err := apply(3, "two", true); err != nil || *forced.Spec.Replicas != 3 || forced.Generation != 2 {
		t.Errorf("another manager by force: %v, %v", forced, err)
	}
}

func TestEveryKindOfPatchWorks(t *testing.T) {
	s := shared(t)
	ctx := s.NewCluster(t, "patch")
	deployments := s.Kube.AppsV1().Deployments("default")
	if _, err := deployments.Apply(ctx, deploymentConfig(1), metav1.ApplyOptions{FieldManager: "test"}); err != nil {
		t.Fatal(err)
	}
	for kind, patch := range map[types.PatchType]string{
		types.JSONPatchType:           `[{"op":"add","path":"/metadata/annotations/json","value":"yes"}]`,
		types.MergePatchType:          `{"metadata":{"annotations":{"merge":"yes","kcp.io/cluster":null}}}`,
		types.StrategicMergePatchType: `{"spec":{"template":{"spec":{"containers":[{"name":"web","imagePullPolicy":"IfNotPresent"}]}}}}`,
	} {
		if _, err := deployments.Patch(ctx, "web", kind, []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
	d, err := deployments.Get(ctx, "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	container := d.Spec.Template.Spec.Containers[0]
	// Annotations that a user changes bump the generation of a Deployment, too:
	// upstream's rule, which our own annotations must not trigger.
	if d.Annotations["json"] != "yes" || d.Annotations["merge"] != "yes" || d.Annotations["kcp.io/cluster"] != "patch" ||
		container.ImagePullPolicy != corev1.PullIfNotPresent || container.Image != "nginx" || d.Generation != 4 {
		t.Errorf("after the patches: generation %d, annotations %v, container %v", d.Generation, d.Annotations, container)
	}
}

func TestADryRunStoresNothing(t *testing.T) {
	s := shared(t)
	ctx := s.NewCluster(t, "dry")
	deployments := s.Kube.AppsV1().Deployments("default")
	if _, err := deployments.Apply(ctx, deploymentConfig(1), metav1.ApplyOptions{FieldManager: "test", DryRun: []string{metav1.DryRunAll}}); err != nil {
		t.Fatal(err)
	}
	if _, err := deployments.Get(ctx, "web", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("after a dry run: %v, want NotFound", err)
	}
	if list, err := s.Atoll.PlacementV1alpha1().Placements("default").List(ctx, metav1.ListOptions{}); err != nil || len(list.Items) != 0 {
		t.Errorf("placements after a dry run: %v, %v", list.Items, err)
	}
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
	created, err := s.Kube.CoreV1().Services("default").Create(ctx, service, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil || created.Spec.ClusterIP == "" {
		t.Errorf("the reply to a dry run shows the address: %v, %v", created, err)
	}
}

func TestListsArePagedAndSelected(t *testing.T) {
	s := shared(t)
	ctx := s.NewCluster(t, "pages")
	other := s.NewCluster(t, "pages-too")
	maps := s.Kube.CoreV1().ConfigMaps("default")
	for i := range 7 {
		for _, in := range []context.Context{ctx, other} {
			cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("p-", i), Labels: map[string]string{"odd": fmt.Sprint(i % 2)}}}
			if _, err := maps.Create(in, cm, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	var names []string
	options := metav1.ListOptions{Limit: 3}
	for pages := 0; ; pages++ {
		list, err := maps.List(ctx, options)
		if err != nil {
			t.Fatal(err)
		}
		for _, cm := range list.Items {
			names = append(names, cm.Name)
		}
		if options.Continue = list.Continue; options.Continue == "" {
			break
		}
		if pages > 5 {
			t.Fatal("the pages do not end")
		}
	}
	if want := []string{"kube-root-ca.crt", "p-0", "p-1", "p-2", "p-3", "p-4", "p-5", "p-6"}; !slices.Equal(names, want) {
		t.Errorf("pages hold %v, want %v", names, want)
	}
	odd, err := maps.List(ctx, metav1.ListOptions{LabelSelector: "odd=1"})
	if err != nil || len(odd.Items) != 3 {
		t.Errorf("%d selected by label, want 3 (%v)", len(odd.Items), err)
	}
	one, err := maps.List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=p-4"})
	if err != nil || len(one.Items) != 1 {
		t.Errorf("%d selected by name, want 1 (%v)", len(one.Items), err)
	}
}

func TestAContinueTokenOfAnotherLogicalClusterShowsNothingOfIt(t *testing.T) {
	s := shared(t)
	secret, ctx := s.NewCluster(t, "token-of"), s.NewCluster(t, "token-in")
	for i := range 4 {
		if _, err := s.Kube.CoreV1().ConfigMaps("default").Create(secret, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("a-", i)}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	page, err := s.Kube.CoreV1().ConfigMaps("default").List(secret, metav1.ListOptions{Limit: 2})
	if err != nil || page.Continue == "" {
		t.Fatalf("a first page: %v", err)
	}
	rest, err := s.Kube.CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{Limit: 10, Continue: page.Continue})
	if err != nil {
		return // refused is fine, too
	}
	for _, cm := range rest.Items {
		if cm.Annotations["kcp.io/cluster"] != "token-in" {
			t.Errorf("shows %s of %s", cm.Name, cm.Annotations["kcp.io/cluster"])
		}
	}
}

func TestAStreamingListEndsItsInitialEventsWithABookmark(t *testing.T) {
	s := shared(t)
	ctx := s.NewCluster(t, "stream")
	w, err := s.Kube.CoreV1().ConfigMaps("default").Watch(ctx, metav1.ListOptions{
		SendInitialEvents: ptr.To(true), AllowWatchBookmarks: true, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	added := 0
	deadline := time.After(20 * time.Second)
	for {
		select {
		case e := <-w.ResultChan():
			switch e.Type {
			case watch.Added:
				added++
			case watch.Bookmark:
				if e.Object.(*corev1.ConfigMap).Annotations[metav1.InitialEventsAnnotationKey] == "true" {
					if added != 1 {
						t.Errorf("%d initial events, want the one of kube-root-ca.crt", added)
					}
					return
				}
			default:
				t.Fatalf("event %s %v", e.Type, e.Object)
			}
		case <-deadline:
			t.Fatal("no bookmark")
		}
	}
}

func TestDiscoveryAndOpenAPIShowBuiltInAndNativeKinds(t *testing.T) {
	s := shared(t)
	s.NewCluster(t, "discover")
	client := discovery.NewDiscoveryClientForConfigOrDie(scope.PinnedConfig(s.Config, scope.Scope{Cluster: "discover"}))
	lists, err := client.ServerPreferredResources()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, l := range lists {
		for _, r := range l.APIResources {
			names = append(names, l.GroupVersion+"/"+r.Name)
		}
	}
	for _, want := range []string{"v1/pods", "apps/v1/deployments", "batch/v1/cronjobs", "autoscaling/v2/horizontalpodautoscalers",
		"networking.k8s.io/v1/ingresses", "policy/v1/poddisruptionbudgets", "tenancy.atoll.dev/v1alpha1/logicalclusters",
		"fleet.atoll.dev/v1alpha1/physicalclusters", "placement.atoll.dev/v1alpha1/placements"} {
		if !slices.Contains(names, want) {
			t.Errorf("discovery lacks %s", want)
		}
	}
	v2, err := client.OpenAPISchema()
	if err != nil || !strings.Contains(v2.String(), "dev.atoll.placement.v1alpha1.Copy") {
		t.Errorf("OpenAPI v2 lacks our kinds (%v)", err)
	}
	paths, err := client.OpenAPIV3().Paths()
	if err != nil {
		t.Fatal(err)
	}
	v3, err := paths["apis/placement.atoll.dev/v1alpha1"].Schema("application/json")
	if err != nil || !json.Valid(v3) {
		t.Errorf("OpenAPI v3 of our kinds: %v", err)
	}
}

func TestNamespacesAndOwnedObjectsAreDeleted(t *testing.T) {
	s := shared(t)
	ctx := s.NewCluster(t, "gone")
	if _, err := s.Kube.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	owner, err := s.Kube.CoreV1().ConfigMaps("n").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "owner"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	owned := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "owned", OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "owner", UID: owner.UID}}}}
	if _, err := s.Kube.CoreV1().Secrets("n").Create(ctx, owned, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := s.Kube.CoreV1().ConfigMaps("n").Delete(ctx, "owner", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	gone := func(get func() error) func() error {
		return func() error {
			if err := get(); !apierrors.IsNotFound(err) {
				return fmt.Errorf("still there: %v", err)
			}
			return nil
		}
	}
	eventually(t, "the owned object is collected", gone(func() error {
		_, err := s.Kube.CoreV1().Secrets("n").Get(ctx, "owned", metav1.GetOptions{})
		return err
	}))
	if err := s.Kube.CoreV1().Namespaces().Delete(ctx, "n", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the namespace ends", gone(func() error {
		_, err := s.Kube.CoreV1().Namespaces().Get(ctx, "n", metav1.GetOptions{})
		return err
	}))
}
