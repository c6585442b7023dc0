package admission

import (
	"errors"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/resourcequota"
	mutatingwebhook "k8s.io/apiserver/pkg/admission/plugin/webhook/mutating"
	"k8s.io/apiserver/pkg/authentication/user"
	dynamicfake "k8s.io/client-go/dynamic/fake"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

var west = &user.DefaultInfo{Name: "system:atoll:syncer:west", Groups: []string{"system:atoll:syncers"}}

// podReviews is a chain with a Deployment in "web" for each of some targets annotations, named by
// it, and with a rule for pods and one that is none of theirs.
func podReviews(t *testing.T, targets map[string]string) (c *Chain, pods, others *rule) {
	t.Helper()
	f := placedWorld().start(t)
	var objects []runtime.Object
	for name, value := range targets {
		objects = append(objects, &appsv1.Deployment{
			TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "web", UID: "u", Annotations: map[string]string{placementv1alpha1.TargetsAnnotation: value}},
		})
	}
	scheme := runtime.NewScheme()
	if err := appsv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	f.own.lookup.dynamic = dynamicfake.NewSimpleDynamicClient(scheme, objects...)
	pods, others = newRule(), newRule()
	c = &Chain{own: f.own, informers: chain(t, newRule()).informers,
		mutating:   []step{{mutatingwebhook.PluginName, pods}, {resourcequota.PluginName, others}},
		validating: []step{{podSecurityName, pods}, {resourcequota.PluginName, others}},
	}
	return c, pods, others
}

func aboutPod(kind, name string, uid types.UID, pod string) *placementv1alpha1.PodReview {
	return &placementv1alpha1.PodReview{Spec: placementv1alpha1.PodReviewSpec{
		Owner: placementv1alpha1.PodReviewOwner{Group: "apps", Kind: kind, Name: name, UID: uid}, Pod: runtime.RawExtension{Raw: []byte(pod)},
	}}
}

const somePod = `{"apiVersion":"v1","kind":"Pod","metadata":{"generateName":"a-"},"spec":{"containers":[{"name":"c","image":"c"}]}}`

func (c *Chain) ask(review *placementv1alpha1.PodReview, u user.Info) error {
	a := admission.NewAttributesRecord(review, nil, placementv1alpha1.SchemeGroupVersion.WithKind("PodReview"), "web", "",
		placementv1alpha1.SchemeGroupVersion.WithResource("podreviews"), "", admission.Create, &metav1.CreateOptions{}, false, u)
	if err := c.Admit(shop(), a, nil); err != nil {
		return err
	}
	return c.Validate(shop(), a, nil)
}

func TestOnlyASyncerIsAnsweredAndOnlyAboutPodsOfObjectsThatHaveACopyThere(t *testing.T) {
	targets := map[string]string{
		"here": `{"east":{}}`, "leaving": `{"east":{"state":"Removing"},"west":{}}`, "adopted": `{"east":{"state":"Observed","uid":"x","adopted":true}}`,
		"elsewhere": `{"west":{}}`, "waits": `{"east":{"state":"Waiting"}}`, "planted": `{"east":{"state":"Observed","uid":"x"}}`, "nowhere": ``,
	}
	none := func(err error) bool { return err == nil }
	for name, tc := range map[string]struct {
		who    user.Info
		review *placementv1alpha1.PodReview
		want   func(error) bool
	}{
		"its own":                       {east, aboutPod("Deployment", "here", "u", somePod), none},
		"that is leaving":               {east, aboutPod("Deployment", "leaving", "u", somePod), none},
		"that was adopted there":        {east, aboutPod("Deployment", "adopted", "u", somePod), none},
		"elsewhere":                     {east, aboutPod("Deployment", "elsewhere", "u", somePod), apierrors.IsForbidden},
		"that waits":                    {east, aboutPod("Deployment", "waits", "u", somePod), apierrors.IsForbidden},
		"that it mirrored itself":       {east, aboutPod("Deployment", "planted", "u", somePod), apierrors.IsForbidden},
		"not placed":                    {east, aboutPod("Deployment", "nowhere", "u", somePod), apierrors.IsForbidden},
		"of before":                     {east, aboutPod("Deployment", "here", "v", somePod), apierrors.IsForbidden},
		"without a UID":                 {east, aboutPod("Deployment", "here", "", somePod), apierrors.IsForbidden},
		"that is not there":             {east, aboutPod("Deployment", "gone", "u", somePod), apierrors.IsForbidden},
		"of a kind that nobody knows":   {east, aboutPod("Widget", "here", "u", somePod), apierrors.IsForbidden},
		"no pod":                        {east, aboutPod("Deployment", "here", "u", `{"apiVersion":"v1","kind":"Secret"}`), apierrors.IsInvalid},
		"nothing":                       {east, aboutPod("Deployment", "here", "u", ``), apierrors.IsInvalid},
		"the syncer of somewhere else":  {west, aboutPod("Deployment", "elsewhere", "u", somePod), apierrors.IsNotFound},
		"a user":                        {alice, aboutPod("Deployment", "here", "u", somePod), apierrors.IsForbidden},
		"an admin":                      {master, aboutPod("Deployment", "here", "u", somePod), apierrors.IsForbidden},
		"the server, but for no syncer": {loopback, aboutPod("Deployment", "here", "u", somePod), apierrors.IsForbidden},
	} {
		t.Run(name, func(t *testing.T) {
			c, pods, _ := podReviews(t, targets)
			err := c.ask(tc.review, tc.who)
			if !tc.want(err) {
				t.Fatal(err)
			}
			if answered := err == nil; (pods.mutated > 0) != answered || tc.review.Status.Allowed != answered {
				t.Errorf("the rules were asked %d times, the answer is %+v", pods.mutated, tc.review.Status)
			}
		})
	}
}

func TestTheAnswerHasThePodAsItWasAdmittedAndNothingIsCharged(t *testing.T) {
	c, pods, others := podReviews(t, map[string]string{"here": `{"east":{}}`})
	review := aboutPod("Deployment", "here", "u", somePod)
	review.Status.Message = "what the syncer says"
	if err := c.ask(review, east); err != nil {
		t.Fatal(err)
	}
	if s := review.Status; s.Pod == nil || !strings.Contains(string(s.Pod.Raw), "the rule") || s.Message != "" || strings.Contains(string(review.Spec.Pod.Raw), "the rule") {
		t.Errorf("%+v", s)
	}
	if pods.mutated != 1 || pods.validated != 1 || others.mutated+others.validated != 0 {
		t.Errorf("asked %d and %d times, others %d and %d", pods.mutated, pods.validated, others.mutated, others.validated)
	}
}

func TestARefusalIsAnAnswerWithItsSentence(t *testing.T) {
	c, pods, _ := podReviews(t, map[string]string{"here": `{"east":{}}`})
	pods.refusal = apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "a", errors.New("no "+strings.Repeat("x", 2*maxRefusal)))
	review := aboutPod("Deployment", "here", "u", somePod)
	if err := c.ask(review, east); err != nil {
		t.Fatal(err)
	}
	if s := review.Status; s.Allowed || s.Pod != nil || s.Code != 403 || !strings.Contains(s.Message, "no x") || len(s.Message) > maxRefusal {
		t.Errorf("%+v", s)
	}
}

func TestANewNamespaceIsNotedWhereRulesAreAboutPods(t *testing.T) {
	c := chain(t, newRule())
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "new"}}
	a := admission.NewAttributesRecord(ns, nil, corev1.SchemeGroupVersion.WithKind("Namespace"), "new", "new",
		corev1.SchemeGroupVersion.WithResource("namespaces"), "", admission.Create, nil, false, alice)
	ns.Annotations = map[string]string{placementv1alpha1.AdmitsPodsAnnotation: "true"} // says the user
	r, err := c.own.request(shop(), a)
	if err != nil {
		t.Fatal(err)
	}
	c.noteAdmitsPods(r)
	if _, noted := ns.Annotations[placementv1alpha1.AdmitsPodsAnnotation]; noted {
		t.Error("it is noted without a rule")
	}
}

// A pod is not stored here, where its size would be refused.
func TestAPodThatWebhooksMakeTooLargeIsRefused(t *testing.T) {
	c, _, _ := podReviews(t, map[string]string{"here": `{"east":{}}`})
	large := strings.Replace(somePod, `"image":"c"`, `"image":"c","args":["`+strings.Repeat("x", maxAdmittedPod)+`"]`, 1)
	review := aboutPod("Deployment", "here", "u", large)
	if err := c.ask(review, east); err != nil {
		t.Fatal(err)
	}
	if s := review.Status; s.Allowed || s.Pod != nil || s.Code != 413 || !strings.Contains(s.Message, "can be stored") {
		t.Errorf("%t, %d: %s", s.Allowed, s.Code, s.Message)
	}
}
