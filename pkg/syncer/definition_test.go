package syncer

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

var widgets = schema.GroupResource{Group: "example.com", Resource: "widgets"}

// page is what a server answers that does not know the path, or a proxy: text, and no Status.
func page(code int) error {
	return apierrors.NewGenericServerResponse(code, "GET", schema.GroupResource{}, "", "404 page not found", 0, true)
}

func TestWhatAnAnswerSaysOfAnObject(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want Answer
	}{
		"it is there":                             {nil, AnswerThere},
		"it is gone":                              {apierrors.NewNotFound(widgets, "gear"), AnswerGone},
		"another one is gone":                     {apierrors.NewNotFound(widgets, "other"), AnswerUnclear},
		"one of another kind is gone":             {apierrors.NewNotFound(schema.GroupResource{Group: "example.com", Resource: "gadgets"}, "gear"), AnswerUnclear},
		"a page that is not found":                {page(http.StatusNotFound), AnswerUnclear},
		"it may not be seen":                      {apierrors.NewForbidden(widgets, "gear", errors.New("no")), AnswerUnclear},
		"the server was not reached":              {errors.New("connection refused"), AnswerSilent},
		"the server is not up":                    {apierrors.NewServiceUnavailable("starting"), AnswerSilent},
		"the server does not know who asks":       {apierrors.NewUnauthorized("no"), AnswerSilent},
		"a proxy does not reach the server":       {page(http.StatusBadGateway), AnswerSilent},
		"a webhook or the like is broken":         {apierrors.NewInternalError(errors.New("oops")), AnswerUnclear},
		"the server has lost its storage a while": {apierrors.NewInternalError(errors.New("etcdserver: no leader")), AnswerSilent},
	} {
		if got := AnswerOf(c.err, widgets, "gear"); got != c.want {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func TestThatAKindIsGoneIsProven(t *testing.T) {
	service := func(name, managed string) metav1.PartialObjectMetadata {
		s := metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if managed != "" {
			s.Labels = map[string]string{"kube-aggregator.kubernetes.io/automanaged": managed}
		}
		return s
	}
	others := []metav1.PartialObjectMetadata{
		service("v1.", "onstart"), service("v1.apps", "onstart"), service("v1beta1.metrics.k8s.io", ""), service("v1.more.example.com", ""), service("v1.com", ""), service("example.com", ""),
	}
	defined, own, stock := service("v1.example.com", "true"), service("v1beta1.example.com", ""), service("v2.example.com", "onstart")
	const there, gone, silent, unclear = AnswerThere, AnswerGone, AnswerSilent, AnswerUnclear
	for name, c := range map[string]struct {
		group              string
		definition, listed Answer
		services           []metav1.PartialObjectMetadata
		want               string
	}{
		"nobody defines it, nor anything in its group": {"example.com", gone, there, nil, "gone"},
		"nobody defines it, but others in its group":   {"example.com", gone, there, []metav1.PartialObjectMetadata{defined}, "gone"},
		"it is defined":                                      {"example.com", there, there, nil, ""},
		"whether it is defined may not be known":             {"example.com", unclear, there, nil, ""},
		"whether it is defined is not known yet":             {"example.com", silent, there, nil, "again"},
		"a server of its own may serve it":                   {"example.com", gone, there, []metav1.PartialObjectMetadata{own}, ""},
		"a server of its own may, beside definitions":        {"example.com", gone, there, []metav1.PartialObjectMetadata{defined, own}, ""},
		"the API server may serve it in another version":     {"example.com", gone, there, []metav1.PartialObjectMetadata{stock}, ""},
		"who serves it may not be known":                     {"example.com", gone, unclear, nil, ""},
		"who serves it is not known yet":                     {"example.com", gone, silent, nil, "again"},
		"no list says that there is none":                    {"example.com", gone, gone, nil, ""},
		"it is defined, and who serves it is not known":      {"example.com", there, silent, nil, ""},
		"it is of the API server, which does not say so now": {"", gone, there, nil, ""},
		"nothing was answered":                               {"example.com", "", "", nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			isGone, again := KindGone(c.group, c.definition, c.listed, append(c.services, others...))
			if isGone != (c.want == "gone") || again != (c.want == "again") {
				t.Errorf("gone %t, again %t", isGone, again)
			}
		})
	}
}

func TestOnlyOneCombinationOfAnswersProvesThatAKindIsGone(t *testing.T) {
	answers := []Answer{"", AnswerThere, AnswerGone, AnswerSilent, AnswerUnclear}
	proven := 0
	for _, definition := range answers {
		for _, listed := range answers {
			gone, again := KindGone("example.com", definition, listed, nil)
			if gone && again {
				t.Errorf("%s, %s: it is gone, and it is not known yet", definition, listed)
			}
			if gone {
				proven++
			}
		}
	}
	if proven != 1 {
		t.Errorf("%d combinations prove it", proven)
	}
}

func TestWhatANotFoundIsAbout(t *testing.T) {
	gear := placementv1alpha1.CarriedObject{Group: "example.com", Version: "v1", Kind: "Widget", Resource: "widgets", Namespace: "monitoring", Name: "gear"}
	namespaces := schema.GroupResource{Resource: "namespaces"}
	for name, c := range map[string]struct {
		err  error
		of   placementv1alpha1.CarriedObject
		want NotFound
	}{
		"the object":                          {apierrors.NewNotFound(widgets, "gear"), gear, NotFoundObject},
		"another object":                      {apierrors.NewNotFound(widgets, "other"), gear, NotFoundUnclear},
		"one of another group":                {apierrors.NewNotFound(schema.GroupResource{Resource: "widgets"}, "gear"), gear, NotFoundUnclear},
		"its namespace":                       {apierrors.NewNotFound(namespaces, "monitoring"), gear, NotFoundNamespace},
		"another namespace":                   {apierrors.NewNotFound(namespaces, "web"), gear, NotFoundUnclear},
		"a namespace, of what is in none":     {apierrors.NewNotFound(namespaces, ""), placementv1alpha1.CarriedObject{Group: "example.com", Resource: "widgets", Name: "gear"}, NotFoundUnclear},
		"a kind that is not served":           {page(http.StatusNotFound), gear, NotFoundUnclear},
		"what an aggregated API wants to say": {apierrors.NewNotFound(widgets, ""), gear, NotFoundUnclear},
		"no answer":                           {errors.New("connection refused"), gear, NotFoundUnclear},
	} {
		if got := NotFoundOf(c.err, c.of); got != c.want {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func TestHowAKindIsServed(t *testing.T) {
	served := metav1.APIResourceList{APIResources: []metav1.APIResource{
		{Name: "pods/eviction", Kind: "Eviction", Namespaced: true}, {Name: "widgets/status", Kind: "Widget"}, {Name: "replicas", Kind: "Widget", Group: "other.example.com", Version: "v1"},
		{Name: "widgets", Kind: "Widget", Namespaced: true}, {Name: "zones", Kind: "Zone"},
	}}
	for kind, want := range map[string]string{"Widget": "widgets true true", "Zone": "zones false true", "Eviction": " false false", "Gadget": " false false"} {
		resource, namespaced, ok := ServedAs(served, kind)
		if got := fmt.Sprintf("%s %t %t", resource, namespaced, ok); got != want {
			t.Errorf("%s: %s, not %s", kind, got, want)
		}
	}
}

func TestWhereAKindHasAnotherScopeNothingOfTheNameIsLeft(t *testing.T) {
	for name, c := range map[string]struct {
		c          carrying
		namespaced bool
		want       string // what is carried, NothingCarried, the failure
	}{
		"as it names a namespace":                          {carrying{logical: "live", copy: "Synced"}, true, "settings false "},
		"live, and in no namespace by now":                 {carrying{logical: "live", copy: "Synced"}, false, " false ClusterScoped"},
		"leaves, and in no namespace by now":               {carrying{logical: "deleting", copy: "Synced"}, false, " true "},
		"gone, and in no namespace by now":                 {carrying{copy: "Synced"}, false, " true "},
		"made again, and in no namespace by now":           {carrying{logical: "live!", copy: "Synced"}, false, " true "},
		"gone: what is recorded is completed":              {carrying{copy: "Synced"}, true, "settings false "},
		"leaves: what is there is looked for as ever":      {carrying{logical: "removing", copy: "Synced"}, true, "settings false "},
		"never recorded, live, and the kind is in no such": {carrying{logical: "live", copy: "Pending", edit: notRecorded}, false, " false ClusterScoped"},
	} {
		t.Run(name, func(t *testing.T) {
			in := c.c.input(t)
			in.Carried = nil
			in = Locate(in, "configmaps", c.namespaced)
			var carried, failure string
			if in.Carried != nil {
				carried = in.Carried.Name
			}
			if in.Failure != nil {
				failure = in.Failure.Reason
			}
			if got := fmt.Sprintf("%s %t %s", carried, in.NothingCarried, failure); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// Who may not do what a Manifest needs learns what helps; who only has to wait does not.
func TestWhoMayNotCarryLearnsTheWayOut(t *testing.T) {
	forbidden := apierrors.NewForbidden(widgets, "gear", errors.New("no"))
	if f := CarriedNotKnown(forbidden, kinds["Manifest"]); f == nil || f.Reason != fleetv1alpha1.ReasonKindsNotKnown || !strings.Contains(f.Message, "ClusterRoleBinding") {
		t.Errorf("who may not list gets %+v", f)
	}
	if f, ok := CarriedRefused(forbidden, kinds["Manifest"]); !ok || f.Reason != "Forbidden" || !strings.Contains(f.Message, "ClusterRoleBinding") {
		t.Errorf("who may not write gets %+v, %t", f, ok)
	}
	if f := CarriedNotKnown(apierrors.NewServiceUnavailable("starting"), kinds["Manifest"]); f != nil {
		t.Errorf("silence is %+v", f)
	}
	if f, ok := CarriedRefused(apierrors.NewInvalid(schema.GroupKind{Kind: "Widget"}, "gear", nil), kinds["Manifest"]); !ok || strings.Contains(f.Message, "ClusterRoleBinding") {
		t.Errorf("what is invalid is %+v, %t", f, ok)
	}
}
