package podadmission

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/boundary"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/view/viewtest"
)

func TestOnlyWhoKnowsThePathIsAnswered(t *testing.T) {
	s := NewServer("127.0.0.1:0", "")
	k, withdrawn := New(Config{Server: s}), New(Config{Server: s})
	for _, each := range []*Keeper{k, withdrawn} {
		_, withdraw, err := s.offer(each.path, "example.org", each.serveHTTP)
		if err != nil {
			t.Fatal(err)
		}
		each.withdraw = withdraw
		defer each.end()
	}
	withdrawn.end()
	copied := `{"request":{"uid":"1","operation":"UPDATE"}}`
	for name, c := range map[string]struct {
		method, path, body string
		code               int
	}{
		"another path":     {http.MethodPost, "/pods/" + strings.Repeat("0", 32), copied, http.StatusNotFound},
		"a shorter one":    {http.MethodPost, "/pods/", copied, http.StatusNotFound},
		"no question":      {http.MethodGet, k.path, "", http.StatusNotFound},
		"that of another":  {http.MethodPost, withdrawn.path, copied, http.StatusNotFound},
		"no review":        {http.MethodPost, k.path, "{}", http.StatusBadRequest},
		"too much":         {http.MethodPost, k.path, `{"x":"` + strings.Repeat("x", maxReview) + `"}`, http.StatusBadRequest},
		"what is to admit": {http.MethodPost, k.path, copied, http.StatusOK},
	} {
		t.Run(name, func(t *testing.T) {
			w := httptest.NewRecorder()
			s.serveHTTP(w, httptest.NewRequest(c.method, c.path, bytes.NewBufferString(c.body)))
			if w.Code != c.code {
				t.Errorf("%d: %s", w.Code, w.Body)
			}
		})
	}
	if other := New(Config{}); other.path == k.path {
		t.Error("two syncers have one path")
	}
}

func TestWhichErrorsAreNoAnswer(t *testing.T) {
	pods := schema.GroupResource{Resource: "podreviews"}
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"none":               {nil, false},
		"nobody there":       {errors.New("connection refused"), true},
		"too late":           {context.DeadlineExceeded, true},
		"a broken server":    {apierrors.NewInternalError(errors.New("x")), true},
		"too much to do":     {apierrors.NewTooManyRequests("x", 1), true},
		"not known any more": {apierrors.NewUnauthorized("x"), true},
		"refused":            {apierrors.NewForbidden(pods, "x", nil), false},
		"not placed there":   {apierrors.NewNotFound(pods, "x"), false},
	} {
		if got := isUnavailable(c.err); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// A pod of a Deployment, in a namespace with something to say, unless the case says otherwise.
func TestWhoseAdmissionIsAsked(t *testing.T) {
	const deployment, copied = "below-app", "copied"
	for name, c := range map[string]struct {
		silent          bool
		by              string
		answer          placementv1alpha1.PodReviewStatus
		err             error
		whenUnavailable fleetv1alpha1.UnavailablePolicy
		asked           bool
		allowed         bool
		says            string
	}{
		"nothing to say":                    {silent: true, by: deployment, allowed: true},
		"nobody makes it":                   {allowed: true},
		"somebody else makes it":            {by: "other", allowed: true},
		"the copy of a pod":                 {by: copied, allowed: true},
		"admitted":                          {by: deployment, answer: placementv1alpha1.PodReviewStatus{Allowed: true}, asked: true, allowed: true},
		"refused":                           {by: deployment, answer: placementv1alpha1.PodReviewStatus{Message: "no such tier", Code: 403}, asked: true, says: "no such tier"},
		"not placed any more":               {by: deployment, err: apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "web"), asked: true, says: "not found"},
		"nobody answers":                    {by: deployment, err: errors.New("connection refused"), asked: true, says: "does not say"},
		"nobody answers, and that is borne": {by: deployment, err: errors.New("connection refused"), whenUnavailable: fleetv1alpha1.UnavailableAdmit, asked: true, allowed: true},
	} {
		t.Run(name, func(t *testing.T) {
			namespace := viewtest.Namespace()
			if !c.silent {
				annotations := namespace.GetAnnotations()
				annotations[placementv1alpha1.AdmitsPodsAnnotation] = "true"
				namespace.SetAnnotations(annotations)
			}
			above := viewtest.Logical("Deployment", "web", "app", "d", `{"east":{}}`)
			below := viewtest.CopyOf(above, deployment)
			w := viewtest.New(t, []runtime.Object{namespace, above}, []runtime.Object{below})
			w.Watch(t)
			reviews := 0
			w.Records.PrependReactor("create", "podreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
				reviews++
				review := a.(clienttesting.CreateAction).GetObject().(*placementv1alpha1.PodReview).DeepCopy()
				if o := review.Spec.Owner; o.Kind != "Deployment" || o.Name != "app" || o.UID != "d" {
					t.Errorf("asked for %+v", o)
				}
				review.Status = c.answer
				return true, review, c.err
			})
			k := New(Config{View: w.View, Up: w.Up(), Down: w.Down(), Permits: func() boundary.Permits { return boundary.Permits{} }})
			k.whenUnavailable.Store(c.whenUnavailable)
			pod := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"generateName": "app-"}, "spec": map[string]any{"containers": []any{}}}}
			switch c.by {
			case "":
			case copied:
				pod = viewtest.CopyOf(viewtest.Logical("Pod", "web", "single", "s", `{"east":{}}`), "below-single")
			case "other":
				pod.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "example.org/v1", Kind: "Other", Name: "x", UID: "x", Controller: ptr.To(true)}})
			default:
				pod.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: "app", UID: deployment, Controller: ptr.To(true)}})
			}
			raw, err := json.Marshal(pod)
			if err != nil {
				t.Fatal(err)
			}
			r := k.answer(w.Ctx, &admissionv1.AdmissionRequest{Operation: admissionv1.Create, Namespace: viewtest.PhysicalSpace,
				Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"}, Object: runtime.RawExtension{Raw: raw}})
			if r.Allowed != c.allowed || (reviews > 0) != c.asked || !c.allowed && !strings.Contains(r.Result.Message, c.says) || r.Patch != nil {
				t.Errorf("asked %d times: %+v, %+v", reviews, r, r.Result)
			}
		})
	}
}

// ask asks about a pod as an API server does.
func ask(ctx context.Context, t *testing.T, k *Keeper, pod *corev1.Pod) {
	t.Helper()
	pod = pod.DeepCopy()
	pod.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	raw, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	k.answer(ctx, &admissionv1.AdmissionRequest{Operation: admissionv1.Create, Namespace: metav1.NamespaceDefault,
		Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"}, Object: runtime.RawExtension{Raw: raw}})
}

// asksBack has the API server ask the syncer about pods, or not, and end dry runs as says says.
func asksBack(t *testing.T, w *viewtest.World, k *Keeper, says func() (asks bool, err error)) {
	t.Helper()
	w.Kube.PrependReactor("create", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		pod := a.(clienttesting.CreateAction).GetObject().(*corev1.Pod)
		if options := a.(clienttesting.CreateActionImpl).CreateOptions; len(options.DryRun) != 1 {
			t.Errorf("a pod is made: %+v", options)
		}
		asks, err := says()
		if asks {
			ask(w.Ctx, t, k, pod)
		}
		return true, pod, err
	})
}

// That an API server asks is shown by it, and again after a while; that it is configured to says nothing.
func TestWhetherTheAPIServerAsksIsShownByIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := viewtest.New(t, nil, nil)
		k := New(Config{View: w.View, Up: w.Up(), Down: w.Down()})
		asks, failure, runs, from := false, error(nil), 0, 0
		asksBack(t, w, k, func() (bool, error) { runs++; return asks || from > 0 && runs >= from, failure })
		k.written = time.Now().Add(-time.Hour)
		var not syncer.NotAsked
		if err := k.prove(t.Context()); !errors.As(err, &not) || runs != 1 {
			t.Errorf("one that does not ask: %v, after %d dry runs", err, runs)
		}
		failure = apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New("no right to"))
		if err := k.prove(t.Context()); !errors.As(err, &syncer.NotProven{}) {
			t.Errorf("one that refuses the pod: %v", err)
		}
		asks = true // and something else refuses it then
		if err := k.prove(t.Context()); err != nil {
			t.Errorf("one that asks: %v", err)
		}
		before := runs
		asks, failure = false, nil
		if err := k.prove(t.Context()); err != nil || runs != before {
			t.Errorf("it is asked for a proof again at once: %v", err)
		}
		time.Sleep(proofInterval)
		if err := k.prove(t.Context()); !errors.As(err, &not) {
			t.Errorf("a minute after it ended to ask: %v", err)
		}
		// A configuration that was just written is known after a moment.
		k.written, runs, from = time.Now(), 0, 4
		if err := k.prove(t.Context()); err != nil || runs != 4 {
			t.Errorf("one that knows it later: %v, after %d dry runs", err, runs)
		}
		k.proven, k.written, from = time.Time{}, time.Now(), 0
		if err := k.prove(t.Context()); !errors.As(err, &not) || time.Since(k.written) > knownTimeout+2*knownInterval {
			t.Errorf("one that does not: %v, after %s", err, time.Since(k.written))
		}
	})
}

func TestNobodyElseProvesAnything(t *testing.T) {
	w := viewtest.New(t, nil, nil)
	k := New(Config{View: w.View, Up: w.Up(), Down: w.Down()})
	for secret, want := range map[string]int64{"": 0, "guessed": 0, New(Config{}).secret: 0, k.secret: 1} {
		pod := syncer.ProofPod(viewtest.ControlPlane, secret)
		before := k.proofs.Load()
		ask(w.Ctx, t, k, pod)
		if got := k.proofs.Load() - before; got != want {
			t.Errorf("the secret %q proves %d times", secret, got)
		}
	}
}

func TestTheConfigurationIsMadePutRightAndRemoved(t *testing.T) {
	w := viewtest.New(t, nil, nil)
	k := New(Config{View: w.View, Up: w.Up(), Down: w.Down(), Server: NewServer("127.0.0.1:0", "")})
	defer k.end()
	asksBack(t, w, k, func() (bool, error) { return true, nil })
	client := w.Kube.AdmissionregistrationV1().MutatingWebhookConfigurations()
	wanted := &fleetv1alpha1.PodAdmission{URL: "https://10.0.0.1:9443"}
	if err := k.once(w.Ctx, wanted); err != nil {
		t.Fatal(err)
	}
	name := "0-atoll-pods-" + viewtest.ControlPlane
	there, err := client.Get(w.Ctx, name, metav1.GetOptions{})
	if err != nil || *there.Webhooks[0].ClientConfig.URL != "https://10.0.0.1:9443"+k.path || *there.Webhooks[0].FailurePolicy != "Fail" {
		t.Fatalf("%+v, %v", there, err)
	}
	writes := len(w.Kube.Actions())
	if err := k.once(w.Ctx, wanted); err != nil || len(w.Kube.Actions()) != writes+1 {
		t.Errorf("a steady one costs %v: %v", w.Kube.Actions()[writes:], err)
	}
	there.Webhooks[0].ObjectSelector = nil
	if _, err := client.Update(w.Ctx, there, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	service := &fleetv1alpha1.PodAdmission{Service: &fleetv1alpha1.PodAdmissionService{Namespace: "atoll", Name: "syncer"}, WhenUnavailable: fleetv1alpha1.UnavailableAdmit}
	if err := k.once(w.Ctx, service); err != nil {
		t.Fatal(err)
	}
	there, err = client.Get(w.Ctx, name, metav1.GetOptions{})
	if err != nil || there.Webhooks[0].ObjectSelector == nil || *there.Webhooks[0].ClientConfig.Service.Port != 443 || there.Webhooks[0].ClientConfig.URL != nil || *there.Webhooks[0].FailurePolicy != "Ignore" {
		t.Errorf("%+v, %v", there, err)
	}
	if err := k.once(w.Ctx, nil); !errors.Is(err, syncer.ErrAdmissionNotOffered) {
		t.Error(err)
	}
	if _, err := client.Get(w.Ctx, name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("it is still there: %v", err)
	}
}
