package apiserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	tenancyv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/tenancy/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/apiserver/limits"
	"github.com/atoll-dev/atoll/pkg/generated/clientset/versioned"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/test/framework/etcd"
	"github.com/atoll-dev/atoll/test/framework/server"
)

// owned makes a logical cluster of ann.
func owned(t *testing.T, s *server.Server, name string) context.Context {
	t.Helper()
	lc := &tenancyv1alpha1.LogicalCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
	lc.Spec.Owners = []rbacv1.Subject{{Kind: rbacv1.UserKind, Name: "ann"}}
	if _, err := s.Atoll.TenancyV1alpha1().LogicalClusters().Create(server.InRoot(t), lc, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return scope.WithCluster(t.Context(), logicalcluster.Name(name))
}

// annOf is ann at a server.
func annOf(s *server.Server) kubernetes.Interface {
	c := rest.CopyConfig(s.Config)
	c.Impersonate, c.QPS = rest.ImpersonationConfig{UserName: "ann"}, -1
	return kubernetes.NewForConfigOrDie(scope.ScopedConfig(c))
}

// ownerIsKnown returns when ann may do what owners may in the logical cluster of ctx.
func ownerIsKnown(t *testing.T, ctx context.Context, s *server.Server) {
	t.Helper()
	eventually(t, "the owner is known", func() error {
		_, err := annOf(s).CoreV1().ConfigMaps("default").List(ctx, metav1.ListOptions{})
		return err
	})
}

// limit changes the limits of a logical cluster, and returns when the server knows them.
func limit(t *testing.T, s *server.Server, name string, change func(*tenancyv1alpha1.LogicalClusterLimits)) {
	t.Helper()
	eventually(t, "changing limits", func() error {
		lc, err := s.Atoll.TenancyV1alpha1().LogicalClusters().Get(server.InRoot(t), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		change(&lc.Spec.Limits)
		_, err = s.Atoll.TenancyV1alpha1().LogicalClusters().Update(server.InRoot(t), lc, metav1.UpdateOptions{})
		return err
	})
}

func config(name string, bytes int) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"a": strings.Repeat("x", bytes)}}
}

// refusedBy returns what is used and permitted of the limit that an error names.
func refusedBy(err error, limit string) (is, most int, _ error) {
	var status *apierrors.StatusError
	if !errors.As(err, &status) || status.ErrStatus.Details == nil || len(status.ErrStatus.Details.Causes) != 1 ||
		status.ErrStatus.Details.Causes[0].Field != limit || !strings.Contains(err.Error(), limit) {
		return 0, 0, fmt.Errorf("got %v, want a refusal that names %s", err, limit)
	}
	if _, err := fmt.Sscanf(status.ErrStatus.Details.Causes[0].Message, "%d of %d", &is, &most); err != nil {
		return 0, 0, err
	}
	return is, most, nil
}

// kept is how many objects a server counts in the logical cluster of ctx.
func kept(t *testing.T, ctx context.Context, s *server.Server) (int, error) {
	t.Helper()
	_, err := annOf(s).CoreV1().ConfigMaps("default").Create(ctx, config("asked", 0), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	is, _, err := refusedBy(err, "spec.limits.objects")
	return is, err
}

func TestWhatALogicalClusterKeepsIsLimitedWhicheverServerIsAsked(t *testing.T) {
	t.Parallel()
	endpoint, dir := etcd.Start(t), t.TempDir()
	east := server.StartOn(t, dir, endpoint)
	west := server.StartBeside(t, east, endpoint)
	defer func() { west.Stop(t) }()
	ctx, neighbour := owned(t, east, "shop"), owned(t, east, "neighbour")

	eventually(t, "all that a logical cluster begins with", func() error {
		for _, namespace := range []string{metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic, corev1.NamespaceNodeLease} {
			if _, err := east.Kube.CoreV1().ServiceAccounts(namespace).Get(ctx, "default", metav1.GetOptions{}); err != nil {
				return err
			}
			if _, err := east.Kube.CoreV1().ConfigMaps(namespace).Get(ctx, "kube-root-ca.crt", metav1.GetOptions{}); err != nil {
				return err
			}
		}
		_, err := east.Kube.CoreV1().Services(metav1.NamespaceDefault).Get(ctx, "kubernetes", metav1.GetOptions{})
		return err
	})
	limit(t, east, "shop", func(l *tenancyv1alpha1.LogicalClusterLimits) { l.Objects = 1 })
	base := -1
	eventually(t, "both servers count the same", func() error {
		a, err := kept(t, ctx, east)
		if err != nil {
			return err
		}
		b, err := kept(t, ctx, west)
		if err == nil && (a != b || a != base) {
			base, err = a, fmt.Errorf("%d and %d objects", a, b)
		}
		return err
	})

	const more = 12
	limit(t, east, "shop", func(l *tenancyv1alpha1.LogicalClusterLimits) { l.Objects = int64(base + more) })
	configs := annOf(east).CoreV1().ConfigMaps("default")
	eventually(t, "the first object that the new limit permits", func() error {
		held := config("held", 0)
		held.Finalizers = []string{"example.com/held"}
		_, err := configs.Create(ctx, held, metav1.CreateOptions{})
		return err
	})
	for i := 1; i < more; i++ {
		if _, err := configs.Create(ctx, config(fmt.Sprint("c", i), 10), metav1.CreateOptions{}); err != nil {
			t.Fatalf("object %d of %d: %v", i+1, more, err)
		}
	}
	full := func(s *server.Server) error {
		_, err := annOf(s).CoreV1().ConfigMaps("default").Create(ctx, config("one-more", 0), metav1.CreateOptions{})
		is, most, named := refusedBy(err, "spec.limits.objects")
		if named == nil && (!apierrors.IsForbidden(err) || is != base+more || most != is) {
			return err
		}
		return named
	}
	if err := full(east); err != nil {
		t.Errorf("the server that wrote: %v", err)
	}
	// It counts what its watches have, so it may be late; a dry run leaves no object that would be one too many.
	eventually(t, "the other server counts what was written", func() error {
		is, err := kept(t, ctx, west)
		if err == nil && is != base+more {
			err = fmt.Errorf("%d objects", is)
		}
		return err
	})
	if err := full(west); err != nil {
		t.Errorf("the other server: %v", err)
	}
	if _, err := annOf(west).CoreV1().ConfigMaps("default").Create(neighbour, config("one-more", 0), metav1.CreateOptions{}); err != nil {
		t.Errorf("a neighbour: %v", err)
	}
	lcs := versioned.NewForConfigOrDie(scope.ScopedConfig(func() *rest.Config {
		c := rest.CopyConfig(east.Config)
		c.Impersonate.UserName = "ann"
		return c
	}()))
	if _, err := lcs.TenancyV1alpha1().LogicalClusters().Patch(server.InRoot(t), "shop", types.MergePatchType, []byte(`{"spec":{"limits":{"objects":-1}}}`), metav1.PatchOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("its owner changes the limit: %v", err)
	}

	east.Stop(t)
	east = server.StartOn(t, dir, endpoint)
	defer func() { east.Stop(t) }()
	if err := full(east); err != nil {
		t.Errorf("after a restart: %v", err)
	}

	configs = annOf(east).CoreV1().ConfigMaps("default")
	if err := configs.Delete(ctx, "held", metav1.DeleteOptions{}); err != nil {
		t.Errorf("a deletion that waits, at the limit: %v", err)
	}
	if _, err := configs.Patch(ctx, "held", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
		t.Errorf("taking a finalizer off, at the limit: %v", err)
	}
	for _, name := range []string{"one-more", "and-another"} {
		_, err := configs.Create(ctx, config(name, 0), metav1.CreateOptions{})
		if refused := apierrors.IsForbidden(err); refused != (name == "and-another") {
			t.Errorf("%s after a deletion: %v", name, err)
		}
	}
	limitIs := func(want string) {
		t.Helper()
		// A report comes 15 to 23 s after the one before, may meet a conflict, and ends after ten seconds if it hangs.
		server.Eventually(t, 3*time.Minute, "the condition is "+want, func() error {
			lc, err := west.Atoll.TenancyV1alpha1().LogicalClusters().Get(server.InRoot(t), "shop", metav1.GetOptions{})
			if err != nil {
				return err
			}
			c := meta.FindStatusCondition(lc.Status.Conditions, limits.ConditionLimitsReached)
			if c == nil || string(c.Status)+" "+c.Reason != want || !meta.IsStatusConditionTrue(lc.Status.Conditions, "Ready") {
				return fmt.Errorf("%+v", lc.Status.Conditions)
			}
			return nil
		})
	}
	limitIs("True Objects")
	limit(t, west, "shop", func(l *tenancyv1alpha1.LogicalClusterLimits) { l.Objects = tenancyv1alpha1.Unlimited })
	limitIs("False WithinLimits")
	for i := range 2 * more {
		eventually(t, "without the limit", func() error {
			_, err := configs.Create(ctx, config(fmt.Sprint("d", i), 10), metav1.CreateOptions{})
			return err
		})
	}
	// A change of less than a tenth is written minutes later: one report may have come between two of these objects.
	is := int64(base + 3*more - 1)
	eventually(t, "the status says it, but for a tenth", func() error {
		lc, err := west.Atoll.TenancyV1alpha1().LogicalClusters().Get(server.InRoot(t), "shop", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if u := lc.Status.Usage; u == nil || is-u.Objects > u.Objects/10 || u.Bytes.Value() < 1000 || lc.Status.Phase != tenancyv1alpha1.LogicalClusterReady {
			return fmt.Errorf("%s, %+v, of %d objects", lc.Status.Phase, u, is)
		}
		return nil
	})
}

func TestBytesAreLimitedForWhatGrowsAndNothingElse(t *testing.T) {
	s := shared(t)
	ctx := owned(t, s, "bytes")
	configs := annOf(s).CoreV1().ConfigMaps("default")
	const large = 100 << 10
	limit(t, s, "bytes", func(l *tenancyv1alpha1.LogicalClusterLimits) {
		l.Bytes = resource.NewQuantity(3*large, resource.BinarySI)
	})
	eventually(t, "the limit is known", func() error {
		_, err := configs.Create(ctx, config("too-large", 3*large), metav1.CreateOptions{})
		_, _, err = refusedBy(err, "spec.limits.bytes")
		return err
	})
	for _, name := range []string{"a", "b"} {
		if _, err := configs.Create(ctx, config(name, large), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	_, err := configs.Update(ctx, config("a", 5*large), metav1.UpdateOptions{})
	if _, _, err := refusedBy(err, "spec.limits.bytes"); err != nil {
		t.Errorf("an update that grows: %v", err)
	}
	if _, err := configs.Update(ctx, config("a", large/2), metav1.UpdateOptions{}); err != nil {
		t.Errorf("one that shrinks: %v", err)
	}
	limit(t, s, "bytes", func(l *tenancyv1alpha1.LogicalClusterLimits) { l.Bytes = resource.NewQuantity(1, resource.BinarySI) })
	eventually(t, "the smaller limit is known", func() error {
		_, err := configs.Create(ctx, config("small", 0), metav1.CreateOptions{})
		_, _, err = refusedBy(err, "spec.limits.bytes")
		return err
	})
	if _, err := configs.Update(ctx, config("a", large/4), metav1.UpdateOptions{}); err != nil {
		t.Errorf("one that shrinks, far over the limit: %v", err)
	}
	if err := configs.Delete(ctx, "b", metav1.DeleteOptions{}); err != nil {
		t.Errorf("a deletion, far over the limit: %v", err)
	}
	if _, err := s.Kube.CoreV1().ConfigMaps("default").Update(ctx, config("a", large), metav1.UpdateOptions{}); err != nil {
		t.Errorf("an update by the admin: %v", err)
	}
	limit(t, s, "bytes", func(l *tenancyv1alpha1.LogicalClusterLimits) {
		l.Bytes, l.WrittenBytes = nil, resource.NewQuantity(3*large, resource.BinarySI)
	})
	bytes := large
	eventually(t, "what is written is limited, too", func() error {
		bytes--
		_, err := configs.Update(ctx, config("a", bytes), metav1.UpdateOptions{})
		if _, _, named := refusedBy(err, "spec.limits.writtenBytes"); named != nil || !apierrors.IsTooManyRequests(err) {
			return fmt.Errorf("%v, %w", err, named)
		}
		return nil
	})
	if err := configs.Delete(ctx, "a", metav1.DeleteOptions{}); err != nil {
		t.Errorf("a deletion after much was written: %v", err)
	}
}

// said collects warnings.
type said struct {
	mu    sync.Mutex
	texts []string
}

func (s *said) HandleWarningHeader(_ int, _, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.texts = append(s.texts, text)
}

func TestWhoMakesObjectsIsWarnedThatNothingOfThemCanBeRecorded(t *testing.T) {
	t.Parallel()
	s := shared(t)
	ctx := owned(t, s, "recorded")
	ownerIsKnown(t, ctx, s)
	limit(t, s, "recorded", func(l *tenancyv1alpha1.LogicalClusterLimits) { l.Objects = 60 })
	for i := 0; ; i++ { // the system's own, which has a reserve
		_, err := s.Kube.CoreV1().Pods("default").Create(ctx, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("p", i)},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "c"}}},
		}, metav1.CreateOptions{})
		if _, _, refused := refusedBy(err, "spec.limits.objects"); refused == nil {
			break
		}
		if err != nil || i > 90 {
			t.Fatalf("record %d: %v", i, err)
		}
	}
	heard := &said{}
	c := rest.CopyConfig(s.Config)
	c.Impersonate, c.QPS, c.WarningHandler = rest.ImpersonationConfig{UserName: "ann"}, -1, heard
	if _, err := kubernetes.NewForConfigOrDie(scope.ScopedConfig(c)).CoreV1().ConfigMaps("default").Create(ctx, config("a", 0), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if len(heard.texts) != 1 || !strings.Contains(heard.texts[0], "spec.limits.objects of its LogicalCluster permits (60): nothing new is carried to physical clusters") {
		t.Errorf("warnings: %q", heard.texts)
	}
	eventually(t, "the condition says it", func() error {
		lc, err := s.Atoll.TenancyV1alpha1().LogicalClusters().Get(server.InRoot(t), "recorded", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if c := meta.FindStatusCondition(lc.Status.Conditions, limits.ConditionLimitsReached); c == nil || c.Status != metav1.ConditionTrue || c.Reason != limits.ReasonNoMoreRecords {
			return fmt.Errorf("%+v", lc.Status.Conditions)
		}
		return nil
	})
}

func TestWatchesOfALogicalClusterAreLimited(t *testing.T) {
	s := shared(t)
	ctx := owned(t, s, "watching")
	limit(t, s, "watching", func(l *tenancyv1alpha1.LogicalClusterLimits) { l.Watches = 2 })
	ownerIsKnown(t, ctx, s)
	configs := annOf(s).CoreV1().ConfigMaps("default")
	var open []watch.Interface
	defer func() {
		for _, w := range open {
			w.Stop()
		}
	}()
	eventually(t, "a watch too many", func() error {
		w, err := configs.Watch(ctx, metav1.ListOptions{})
		if err == nil {
			open = append(open, w)
			return errors.New("no")
		}
		var status *apierrors.StatusError
		if !errors.As(err, &status) || status.ErrStatus.Code != http.StatusTooManyRequests || !strings.Contains(err.Error(), "spec.limits.watches") {
			t.Fatal(err)
		}
		return nil
	})
	if w, err := s.Kube.CoreV1().ConfigMaps("default").Watch(ctx, metav1.ListOptions{}); err != nil {
		t.Errorf("the admin's: %v", err)
	} else {
		w.Stop()
	}
	for _, w := range open {
		w.Stop()
	}
	open = nil
	eventually(t, "a watch after others ended", func() error {
		w, err := configs.Watch(ctx, metav1.ListOptions{})
		if err == nil {
			open = append(open, w)
		}
		return err
	})
}

func TestWatchesWithLongSelectorsCountForMore(t *testing.T) {
	s := shared(t)
	ctx, neighbour := owned(t, s, "selecting"), owned(t, s, "beside-selecting")
	c := rest.CopyConfig(s.Config)
	c.Impersonate.UserName = "ann"
	client, err := rest.HTTPClientFor(scope.ScopedConfig(c))
	if err != nil {
		t.Fatal(err)
	}
	const longest = 32_000 // of a URI of 32 KiB; counts for 63
	query := "/api/v1/namespaces/default/configmaps?watch=1&labelSelector=" + strings.Repeat("!a,", longest/3) + "!b"
	watching := func(ctx context.Context) (answered *http.Response) {
		t.Helper()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.Config.Host+query, nil)
		if err != nil {
			t.Fatal(err)
		}
		if answered, err = client.Do(req); err != nil {
			t.Fatal(err)
		}
		return answered
	}
	ownerIsKnown(t, ctx, s)
	ownerIsKnown(t, neighbour, s)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	open := 0
	for range 200 {
		answer := watching(ctx)
		if answer.StatusCode == http.StatusOK {
			open++
			defer answer.Body.Close()
			continue
		}
		said, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if err != nil || answer.StatusCode != http.StatusTooManyRequests || !strings.Contains(string(said), "spec.limits.watches") || !strings.Contains(string(said), "counts for 63 more") {
			t.Fatalf("watch %d: %d %s %v", open+1, answer.StatusCode, said, err)
		}
	}
	if open != 2000/63 {
		t.Errorf("%d watches with the longest selectors are open, want %d", open, 2000/63)
	}
	configs := annOf(s).CoreV1().ConfigMaps("default")
	for _, in := range []context.Context{ctx, neighbour} {
		for range 20 {
			w, err := configs.Watch(in, metav1.ListOptions{LabelSelector: "app in (a,b)"})
			if err != nil {
				t.Fatalf("an ordinary watch beside them: %v", err)
			}
			defer w.Stop()
		}
	}
}

// Servers that were started with different URLs, as while all of them get another one, do not write over each other for ever.
func TestServersWithDifferentURLsLeaveEachOtherTheStatus(t *testing.T) {
	t.Parallel()
	endpoint := etcd.Start(t)
	east := server.StartOn(t, t.TempDir(), endpoint)
	defer func() { east.Stop(t) }()
	west := server.StartBeside(t, east, endpoint)
	defer func() { west.Stop(t) }()
	owned(t, east, "shop")
	clusters := east.Atoll.TenancyV1alpha1().LogicalClusters()
	eventually(t, "it is ready", func() error {
		lc, err := clusters.Get(server.InRoot(t), "shop", metav1.GetOptions{})
		if err == nil && lc.Status.Phase != tenancyv1alpha1.LogicalClusterReady {
			err = fmt.Errorf("it is %s", lc.Status.Phase)
		}
		return err
	})
	w, err := clusters.Watch(server.InRoot(t), metav1.ListOptions{FieldSelector: "metadata.name=shop", TimeoutSeconds: ptr.To[int64](5)})
	if err != nil {
		t.Fatal(err)
	}
	changes := 0
	for range w.ResultChan() {
		changes++
	}
	// What it is; a URL of each; what it keeps.
	if changes == 0 || changes > 8 {
		t.Errorf("within five seconds it changed %d times", changes)
	}
}
