package endpoints

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/kcp-dev/logicalcluster/v3"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/controller/controllertest"
)

func in(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, Annotations: map[string]string{logicalcluster.AnnotationKey: "a"}}
}

// start runs the controller until the test ends; of the objects it is told of
// the Services.
func start(t *testing.T, objects ...runtime.Object) *fake.Clientset {
	t.Helper()
	kube, _, _ := startWatched(t, objects...)
	return kube
}

// startWatched also returns the controller and what it watches.
func startWatched(t *testing.T, objects ...runtime.Object) (*fake.Clientset, *Controller, *metadatafake.FakeMetadataClient) {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	var known []runtime.Object
	for _, o := range objects {
		if s, ok := o.(*corev1.Service); ok {
			known = append(known, &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}, ObjectMeta: s.ObjectMeta})
		}
		if e, ok := o.(*corev1.Endpoints); ok {
			known = append(known, &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Endpoints"}, ObjectMeta: e.ObjectMeta})
		}
	}
	kube := fake.NewClientset(objects...)
	watched := metadatafake.NewSimpleMetadataClient(scheme, known...)
	m := controller.NewMetadata(watched, []schema.GroupVersionResource{services, endpoints, endpointSlices}, nil)
	c := New(Config{Kube: kube, Metadata: m})
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() { m.Run(ctx) })
	all.Go(func() { c.Run(ctx) })
	t.Cleanup(func() { cancel(); all.Wait() })
	controllertest.AwaitWatches(t, &watched.Fake, services, endpoints, endpointSlices)
	return kube, c, watched
}

func eventually(t *testing.T, what string, ok func(context.Context) bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, 10*time.Second, true, func(ctx context.Context) (bool, error) { return ok(ctx), nil })
	if err != nil {
		t.Errorf("%s: %v", what, err)
	}
}

func TestAServiceThatSelectsHasEndpointsEvenWithoutPods(t *testing.T) {
	t.Parallel()
	kube := start(t, &corev1.Service{ObjectMeta: in("shop", "web"), Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "web"}}})
	eventually(t, "no Endpoints", func(ctx context.Context) bool {
		e, err := kube.CoreV1().Endpoints("shop").Get(ctx, "web", metav1.GetOptions{})
		return err == nil && e.Labels[managedBy] == manager
	})
}

func TestWhatWasWrittenHereIsNotReadAgainUponItsEvent(t *testing.T) {
	t.Parallel()
	kube, c, watched := startWatched(t, &corev1.Service{ObjectMeta: in("shop", "web"), Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "web"}}})
	kube.PrependReactor("create", "endpoints", func(a clienttesting.Action) (bool, runtime.Object, error) {
		a.(clienttesting.CreateAction).GetObject().(*corev1.Endpoints).ResourceVersion = "5"
		return false, nil, nil
	})
	looks := func(name string) (n int) {
		for _, a := range kube.Actions() {
			if get, ok := a.(clienttesting.GetAction); ok && a.Matches("get", "services") && get.GetName() == name {
				n++
			}
		}
		return n
	}
	event := func(write func(schema.GroupVersionResource, runtime.Object, string) error, name, version string) {
		t.Helper()
		e := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Endpoints"}, ObjectMeta: in("shop", name)}
		e.ResourceVersion = version
		if err := write(endpoints, e, "shop"); err != nil {
			t.Fatal(err)
		}
	}
	create := func(r schema.GroupVersionResource, o runtime.Object, namespace string) error {
		return watched.Tracker().Create(r, o, namespace)
	}
	update := func(r schema.GroupVersionResource, o runtime.Object, namespace string) error {
		return watched.Tracker().Update(r, o, namespace)
	}
	eventually(t, "no Endpoints", func(context.Context) bool { return c.written.Len() == 1 })
	before := looks("web")
	event(create, "web", "5")
	event(create, "later", "6")
	eventually(t, "it does not look at what others write", func(context.Context) bool { return looks("later") > 0 })
	if n := looks("web") - before; n > 0 {
		t.Errorf("it looked %d times at what it had written", n)
	}
	event(update, "web", "7") // somebody else
	eventually(t, "it does not look at what others write of the same", func(context.Context) bool { return looks("web") > before })
}

func TestEndpointsWithoutServiceGoIfTheyWereMadeHere(t *testing.T) {
	t.Parallel()
	made, users := in("shop", "made"), in("shop", "users")
	made.Labels = map[string]string{managedBy: manager}
	kube := start(t, &corev1.Endpoints{ObjectMeta: made}, &corev1.Endpoints{ObjectMeta: users})
	eventually(t, "something else is left", func(ctx context.Context) bool {
		list, err := kube.CoreV1().Endpoints("shop").List(ctx, metav1.ListOptions{})
		return err == nil && len(list.Items) == 1 && list.Items[0].Name == "users"
	})
}

func TestEndpointsOfAUserAreMirroredAndUnwantedMirrorsGo(t *testing.T) {
	t.Parallel()
	stale := slice(mirrorer, endpoint("10.0.0.7", true, false))
	stale.ObjectMeta = in("shop", "db-00000000")
	stale.Labels = map[string]string{discoveryv1.LabelServiceName: "db", discoveryv1.LabelManagedBy: mirrorer}
	kube := start(t,
		&corev1.Service{ObjectMeta: in("shop", "db")},
		&corev1.Endpoints{ObjectMeta: in("shop", "db"), Subsets: []corev1.EndpointSubset{{
			Addresses: []corev1.EndpointAddress{{IP: "10.1.2.3"}}, Ports: []corev1.EndpointPort{{Port: 5432}},
		}}}, &stale)
	var addresses []string
	eventually(t, "not mirrored", func(ctx context.Context) bool {
		list, err := kube.DiscoveryV1().EndpointSlices("shop").List(ctx, metav1.ListOptions{})
		if err != nil || len(list.Items) != 1 {
			return false
		}
		addresses = list.Items[0].Endpoints[0].Addresses
		return addresses[0] != "10.0.0.7"
	})
	if diff := cmp.Diff([]string{"10.1.2.3"}, addresses); diff != "" {
		t.Error(diff)
	}
}

// The watch cache of one resource may be older than the event of another.
func TestWhatAWatchCacheLacksIsReadAnewBeforeAnythingIsDeletedForIt(t *testing.T) {
	t.Parallel()
	made := in("shop", "web")
	made.Labels = map[string]string{managedBy: manager}
	mirrored := slice(mirrorer, endpoint("10.0.0.7", true, false))
	mirrored.ObjectMeta = in("shop", "db-00000000")
	mirrored.Labels = map[string]string{discoveryv1.LabelServiceName: "db", discoveryv1.LabelManagedBy: mirrorer}
	objects := []runtime.Object{
		&corev1.Service{ObjectMeta: in("shop", "web"), Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "web"}}}, &corev1.Endpoints{ObjectMeta: made},
		&corev1.Service{ObjectMeta: in("shop", "db")}, &corev1.Endpoints{ObjectMeta: in("shop", "db"), Subsets: []corev1.EndpointSubset{{
			Addresses: []corev1.EndpointAddress{{IP: "10.1.2.3"}}, Ports: []corev1.EndpointPort{{Port: 5432}},
		}}}, &mirrored,
	}
	for _, lagging := range []string{"services", "endpoints"} {
		kube := fake.NewClientset(objects...)
		kube.PrependReactor("get", lagging, func(a clienttesting.Action) (bool, runtime.Object, error) {
			get := a.(clienttesting.GetActionImpl)
			return get.GetOptions.ResourceVersion == "0", nil, apierrors.NewNotFound(corev1.Resource(lagging), get.Name)
		})
		c := &Controller{Config: Config{Kube: kube}}
		for _, name := range []string{"web", "db"} {
			if _, err := c.reconcile(t.Context(), controller.Request{Cluster: "a", Namespace: "shop", Name: name}); err != nil {
				t.Fatal(err)
			}
		}
		for _, a := range kube.Actions() {
			if remove, ok := a.(clienttesting.DeleteAction); ok && remove.GetName() != mirrored.Name { // replaced by what is to be mirrored now
				t.Errorf("without %s in the watch cache, %s %s was deleted", lagging, remove.GetResource().Resource, remove.GetName())
			}
		}
		list, err := kube.DiscoveryV1().EndpointSlices("shop").List(t.Context(), metav1.ListOptions{})
		if err != nil || len(list.Items) != 1 || list.Items[0].Endpoints[0].Addresses[0] != "10.1.2.3" {
			t.Errorf("without %s in the watch cache, what is mirrored is %v, %v", lagging, list.Items, err)
		}
	}
}
