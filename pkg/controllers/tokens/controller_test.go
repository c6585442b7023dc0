package tokens

import (
	"context"
	"fmt"
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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/fake"
	metadatafake "k8s.io/client-go/metadata/fake"

	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/controller/controllertest"
)

func meta(name, uid string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "web", Name: name, UID: types.UID(uid), Annotations: map[string]string{logicalcluster.AnnotationKey: "shop"}}
}

func token(name, account, uid string, data map[string][]byte) *corev1.Secret {
	s := &corev1.Secret{ObjectMeta: meta(name, "u-"+name), Type: corev1.SecretTypeServiceAccountToken, Data: data}
	s.Annotations[corev1.ServiceAccountNameKey] = account
	if uid != "" {
		s.Annotations[corev1.ServiceAccountUIDKey] = uid
	}
	return s
}

func data(token, ca string) map[string][]byte {
	return map[string][]byte{"token": []byte(token), "ca.crt": []byte(ca), "namespace": []byte("web")}
}

// world is a logical cluster with one account, "robot", and Secrets.
type world struct {
	kube     *fake.Clientset
	metadata *metadatafake.FakeMetadataClient
}

func start(t *testing.T, secrets ...runtime.Object) world {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	robot := &corev1.ServiceAccount{ObjectMeta: meta("robot", "1"), Secrets: []corev1.ObjectReference{{Name: "late"}, {Name: "other"}}}
	w := world{kube: fake.NewClientset(append(secrets, robot)...), metadata: metadatafake.NewSimpleMetadataClient(scheme,
		&metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"}, ObjectMeta: meta("robot", "1")})}
	m := controller.NewMetadata(w.metadata, []schema.GroupVersionResource{accounts}, nil)
	c := New(Config{Kube: w.kube, Metadata: m, RootCA: []byte("ca"), Sign: func(_ context.Context, a *corev1.ServiceAccount, s *corev1.Secret) (string, error) {
		return "signed for " + a.Name + " in " + s.Name, nil
	}})
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() { m.Run(ctx) })
	all.Go(func() { c.Run(ctx) })
	t.Cleanup(func() { cancel(); all.Wait() })
	controllertest.AwaitWatches(t, &w.metadata.Fake, accounts)
	controllertest.AwaitWatches(t, &w.kube.Fake, corev1.SchemeGroupVersion.WithResource("secrets"))
	return w
}

// secrets are all that there are: their names, accounts and content.
func (w world) secrets(t *testing.T) []string {
	list, err := w.kube.CoreV1().Secrets("web").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, s := range list.Items {
		all = append(all, fmt.Sprintf("%s of %s: %s, %s, %s", s.Name, s.Annotations[corev1.ServiceAccountUIDKey], s.Data["token"], s.Data["ca.crt"], s.Data["namespace"]))
	}
	slices.Sort(all)
	return all
}

func eventually[T any](t *testing.T, want T, get func() T) {
	t.Helper()
	var got T
	if err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, 10*time.Second, true, func(context.Context) (bool, error) {
		got = get()
		return cmp.Equal(want, got), nil
	}); err != nil {
		t.Errorf("in the end: %s", cmp.Diff(want, got))
	}
}

func TestASecretGetsTheTokenOfItsAccountOrGoes(t *testing.T) {
	t.Parallel()
	opaque := &corev1.Secret{ObjectMeta: meta("opaque", "o"), Type: corev1.SecretTypeOpaque}
	opaque.Annotations[corev1.ServiceAccountNameKey] = "nobody"
	w := start(t, opaque,
		token("new", "robot", "", nil),
		token("complete", "robot", "1", data("mine", "ca")),
		token("renewed-ca", "robot", "1", data("mine", "older")),
		token("of-nobody", "nobody", "", nil),
		token("of-a-predecessor", "robot", "0", data("old", "ca")),
	)
	eventually(t, []string{
		"complete of 1: mine, ca, web",
		"new of 1: signed for robot in new, ca, web",
		"opaque of : , , ",
		"renewed-ca of 1: mine, ca, web",
	}, func() []string { return w.secrets(t) })
}

func TestTokensGoWithTheirAccount(t *testing.T) {
	t.Parallel()
	w := start(t, token("a", "robot", "1", data("a", "ca")), token("b", "robot", "", nil))
	eventually(t, []string{"a of 1: a, ca, web", "b of 1: signed for robot in b, ca, web"}, func() []string { return w.secrets(t) })
	if err := w.kube.CoreV1().ServiceAccounts("web").Delete(t.Context(), "robot", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := w.metadata.Resource(accounts).Namespace("web").Delete(t.Context(), "robot", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, nil, func() []string { return w.secrets(t) })
}

func TestAnAccountDoesNotMentionATokenThatIsGone(t *testing.T) {
	t.Parallel()
	w := start(t, token("late", "robot", "", nil))
	eventually(t, []string{"late of 1: signed for robot in late, ca, web"}, func() []string { return w.secrets(t) })
	if err := w.kube.CoreV1().Secrets("web").Delete(t.Context(), "late", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, []corev1.ObjectReference{{Name: "other"}}, func() []corev1.ObjectReference {
		account, err := w.kube.CoreV1().ServiceAccounts("web").Get(t.Context(), "robot", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return account.Secrets
	})
}

func TestATokenThatOnlyTheInformerLacksIsStillMentioned(t *testing.T) {
	t.Parallel()
	robot := &corev1.ServiceAccount{ObjectMeta: meta("robot", "1"), Secrets: []corev1.ObjectReference{{Name: "late"}, {Name: "other"}}}
	scheme := runtime.NewScheme()
	if err := metav1.AddMetaToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	m := controller.NewMetadata(metadatafake.NewSimpleMetadataClient(scheme,
		&metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"}, ObjectMeta: meta("robot", "1")}),
		[]schema.GroupVersionResource{accounts}, nil)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { m.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	if err := m.WaitForSync(ctx); err != nil {
		t.Fatal(err)
	}
	kube := fake.NewClientset(robot, token("late", "robot", "1", data("mine", "ca")))
	c := New(Config{Kube: kube, Metadata: m, RootCA: []byte("ca")}) // its informer of Secrets does not run
	k := keyFor(token("late", "robot", "1", nil))
	mentioned := func() []corev1.ObjectReference {
		if _, err := c.reconcile(ctx, k); err != nil {
			t.Fatal(err)
		}
		account, err := kube.CoreV1().ServiceAccounts("web").Get(ctx, "robot", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return account.Secrets
	}
	if diff := cmp.Diff(robot.Secrets, mentioned()); diff != "" {
		t.Errorf("while it is there: %s", diff)
	}
	if err := kube.CoreV1().Secrets("web").Delete(ctx, "late", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]corev1.ObjectReference{{Name: "other"}}, mentioned()); diff != "" {
		t.Errorf("when it is gone: %s", diff)
	}
}
