package serviceaccounts

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/kcp-dev/logicalcluster/v3"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/fake"
	metadatafake "k8s.io/client-go/metadata/fake"

	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/controller/controllertest"
)

func in(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, Annotations: map[string]string{
		logicalcluster.AnnotationKey: "a", descriptionAnnotation: "any",
	}}
}

func namespace(name string, deleted bool) *metav1.PartialObjectMetadata {
	ns := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: in("", name)}
	if deleted {
		ns.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	}
	return ns
}

func accountIn(ns string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"}, ObjectMeta: in(ns, accountName),
	}
}

func rootCAKnown(ns string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: in(ns, rootCAName),
	}
}

func rootCAIn(ns, bundle string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: in(ns, rootCAName), Data: map[string]string{rootCAKey: bundle}}
}

// start runs the controller until the test ends.
func start(t *testing.T, metadata, objects []runtime.Object) (*fake.Clientset, *metadatafake.FakeMetadataClient, *Controller) {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	client := metadatafake.NewSimpleMetadataClient(scheme, metadata...)
	kube := fake.NewClientset(objects...)
	m := controller.NewMetadata(client, []schema.GroupVersionResource{namespaces, accounts, configMaps}, nil)
	c := New(Config{Kube: kube, Metadata: m, RootCA: []byte("bundle")})
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() { m.Run(ctx) })
	all.Go(func() { c.Run(ctx) })
	t.Cleanup(func() { cancel(); all.Wait() })
	return kube, client, c
}

// writes are the requests so far that were not reads.
func writes(kube *fake.Clientset) []string {
	var out []string
	for _, a := range kube.Actions() {
		switch a.GetVerb() {
		case "list", "watch", "get":
		default:
			out = append(out, a.GetVerb()+" "+a.GetResource().Resource+" "+a.GetNamespace())
		}
	}
	slices.Sort(out)
	return out
}

func eventually(t *testing.T, want []string, got func() []string) {
	t.Helper()
	var last []string
	err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, 10*time.Second, true, func(context.Context) (bool, error) {
		last = got()
		return cmp.Equal(want, last), nil
	})
	if err != nil {
		t.Errorf("in the end: %s", cmp.Diff(want, last))
	}
}

func TestEveryNamespaceGetsWhatItLacksAndNoMore(t *testing.T) {
	t.Parallel()
	kube, _, _ := start(t,
		[]runtime.Object{
			namespace("bare", false), namespace("complete", false), namespace("changed", false), namespace("going", true),
			accountIn("complete"), accountIn("changed"), rootCAKnown("complete"), rootCAKnown("changed"),
		},
		[]runtime.Object{rootCAIn("complete", "bundle"), rootCAIn("changed", "forged")})
	eventually(t, []string{"create configmaps bare", "create serviceaccounts bare", "update configmaps changed"},
		func() []string { return writes(kube) })
	cm, err := kube.CoreV1().ConfigMaps("changed").Get(t.Context(), rootCAName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{rootCAKey: "bundle"}, cm.Data); diff != "" {
		t.Error(diff)
	}
}

func TestWhatIsDeletedIsMadeAgain(t *testing.T) {
	t.Parallel()
	kube, metadata, c := start(t,
		[]runtime.Object{namespace("web", false), accountIn("web"), rootCAKnown("web")},
		[]runtime.Object{rootCAIn("web", "bundle")})
	if err := c.broken.WaitForSync(t.Context()); err != nil {
		t.Fatal(err)
	}
	controllertest.AwaitWatches(t, &metadata.Fake, namespaces, accounts, configMaps)
	if err := metadata.Resource(accounts).Namespace("web").Delete(t.Context(), accountName, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, []string{"create serviceaccounts web"}, func() []string { return writes(kube) })
	if err := metadata.Resource(configMaps).Namespace("web").Delete(t.Context(), rootCAName, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, []string{"create configmaps web", "create serviceaccounts web"}, func() []string {
		return slices.Compact(writes(kube)) // the account is not known to exist here, and may be tried again
	})
}

func TestFillMakesBothAndLeavesWhatExists(t *testing.T) {
	t.Parallel()
	kube := fake.NewClientset(rootCAIn("web", "older"))
	if err := Fill(t.Context(), kube, []byte("bundle"), "web"); err != nil {
		t.Fatal(err)
	}
	if _, err := kube.CoreV1().ServiceAccounts("web").Get(t.Context(), accountName, metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	cm, err := kube.CoreV1().ConfigMaps("web").Get(t.Context(), rootCAName, metav1.GetOptions{})
	if err != nil || cm.Data[rootCAKey] != "older" {
		t.Errorf("%v, %v", cm, err)
	}
}
