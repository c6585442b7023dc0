package syncer

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/atoll-dev/atoll/pkg/workload"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	validation "k8s.io/apimachinery/pkg/util/validation/field"
)

var (
	deployments = schema.GroupResource{Group: "apps", Resource: "deployments"}
	pods        = schema.GroupResource{Resource: "pods"}
)

func TestOnlyAnAnswerIsARefusal(t *testing.T) {
	for name, c := range map[string]struct {
		err     error
		silence bool
		refusal bool
	}{
		"connection refused":         {&url.Error{Op: "Get", Err: errors.New("connection refused")}, true, false},
		"wrapped":                    {fmt.Errorf("applying: %w", errors.New("EOF")), true, false},
		"timeout":                    {apierrors.NewTimeoutError("slow", 1), true, false},
		"too many requests":          {apierrors.NewTooManyRequests("later", 1), true, false},
		"etcd is away":               {apierrors.NewServiceUnavailable("no"), true, false},
		"a bad gateway":              {apierrors.NewGenericServerResponse(502, "patch", deployments, "web", "", 0, true), true, false},
		"etcd has no leader":         {apierrors.NewInternalError(errors.New("etcdserver: leader changed")), true, false},
		"credentials expired":        {apierrors.NewUnauthorized("no"), true, false},
		"a webhook below fails":      {apierrors.NewInternalError(errors.New("failed calling webhook")), false, true},
		"not permitted":              {apierrors.NewForbidden(deployments, "web", errors.New("no")), false, true},
		"no service account yet":     {apierrors.NewForbidden(pods, "web", errors.New(`error looking up service account n/default: serviceaccount "default" not found`)), false, false},
		"the namespace is going":     {apierrors.NewForbidden(deployments, "web", errors.New("unable to create new content in namespace n because it is being terminated")), false, false},
		"the namespace is not there": {apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "n"), false, false},
		"too large":                  {apierrors.NewRequestEntityTooLargeError("limit"), false, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := IsSilence(c.err); got != c.silence {
				t.Errorf("silence: %v", got)
			}
			if _, got := RefusalOf(c.err, workload.Kind{}); got != c.refusal {
				t.Errorf("refusal: %v", got)
			}
		})
	}
}

func TestARefusalSaysWhatIsWrongAndRepeatsNoValue(t *testing.T) {
	const secret = "hunter2"
	path := validation.NewPath("spec")
	for name, c := range map[string]struct {
		kind schema.GroupKind
		err  error
		want string
	}{
		"a string":      {schema.GroupKind{Group: "apps", Kind: "Deployment"}, apierrors.NewInvalid(schema.GroupKind{Kind: "Deployment"}, "web", validation.ErrorList{validation.Invalid(path.Child("x"), secret, "must be short")}), "spec.x: Invalid value: must be short"},
		"a structure":   {schema.GroupKind{Group: "apps", Kind: "Deployment"}, apierrors.NewInvalid(schema.GroupKind{Kind: "Deployment"}, "web", validation.ErrorList{validation.Invalid(path, map[string]string{"a": secret}, "field is immutable")}), "spec: Invalid value: field is immutable"},
		"a list":        {schema.GroupKind{Group: "apps", Kind: "Deployment"}, apierrors.NewInvalid(schema.GroupKind{Kind: "Deployment"}, "web", validation.ErrorList{validation.Invalid(path, []string{"a", secret}, "too many")}), "too many"},
		"a number":      {schema.GroupKind{Group: "apps", Kind: "Deployment"}, apierrors.NewInvalid(schema.GroupKind{Kind: "Deployment"}, "web", validation.ErrorList{validation.Invalid(path.Child("n"), 70000, "must be between 1 and 65535")}), "spec.n: Invalid value: must be between 1 and 65535"},
		"a choice":      {schema.GroupKind{Group: "apps", Kind: "Deployment"}, apierrors.NewInvalid(schema.GroupKind{Kind: "Deployment"}, "web", validation.ErrorList{validation.NotSupported(path.Child("p"), secret, []string{"TCP", "UDP"})}), `supported values: "TCP", "UDP"`},
		"a free text":   {schema.GroupKind{Group: "apps", Kind: "Deployment"}, apierrors.NewBadRequest(`admission webhook denied: Invalid value: "` + secret + `": no`), "admission webhook denied: Invalid value: no"},
		"about Secrets": {schema.GroupKind{Kind: "Secret"}, apierrors.NewInvalid(schema.GroupKind{Kind: "Secret"}, "s", validation.ErrorList{validation.Invalid(path, secret, secret)}), "Invalid"},
	} {
		t.Run(name, func(t *testing.T) {
			f, ok := RefusalOf(c.err, kindNamed(t, c.kind))
			if !ok || !strings.Contains(f.Message, c.want) || strings.Contains(f.Message, secret) {
				t.Errorf("%v %q", ok, f.Message)
			}
		})
	}
}

func TestImmutableFieldsAreRecognized(t *testing.T) {
	invalid := func(message string) error {
		return apierrors.NewInvalid(schema.GroupKind{Kind: "Job"}, "j", validation.ErrorList{validation.Invalid(validation.NewPath("spec"), "x", message)})
	}
	for message, want := range map[string]bool{
		"field is immutable": true,
		"pod updates may not change fields other than `spec.containers[*].image`": true,
		"must be no more than 63 characters":                                      false,
	} {
		if f, _ := RefusalOf(invalid(message), workload.Kind{}); f.Immutable != want {
			t.Errorf("%q: %v", message, f.Immutable)
		}
	}
}

func TestOnlyTheAnswerAboutTheObjectSaysThatItIsGone(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"the object":          {apierrors.NewNotFound(deployments, "web"), true},
		"another object":      {apierrors.NewNotFound(deployments, "shop"), false},
		"the logical cluster": {apierrors.NewNotFound(schema.GroupResource{Group: "tenancy.atoll.dev", Resource: "logicalclusters"}, "web"), false},
		"the resource":        {apierrors.NewGenericServerResponse(404, "get", schema.GroupResource{}, "", "404 page not found", 0, true), false},
		"a page, by its name": {apierrors.NewGenericServerResponse(404, "get", deployments, "web", "404 page not found", 0, true), false},
		"without details":     {&apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonNotFound, Code: 404}}, false},
		"no answer":           {errors.New("connection refused"), false},
		"not permitted":       {apierrors.NewForbidden(deployments, "web", errors.New("no")), false},
		"found":               {nil, false},
	} {
		if got := IsGone(c.err, deployments, "web"); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
		if got := IsOutdated(c.err, deployments, "web"); got != c.want {
			t.Errorf("%s: outdated %v", name, got)
		}
		if got := IsPage(c.err); got != (name == "the resource" || name == "a page, by its name") {
			t.Errorf("%s: a page %v", name, got)
		}
	}
}

func TestAConflictIsOutdated(t *testing.T) {
	if !IsOutdated(apierrors.NewConflict(deployments, "web", errors.New("changed")), deployments, "web") {
		t.Error("it is not")
	}
}

func TestAFieldThatTheDefinitionBelowLacksHasAReasonOfItsOwn(t *testing.T) {
	err := apierrors.FromObject(&metav1.Status{Status: metav1.StatusFailure, Code: 500,
		Message: "failed to create typed patch object (n/web; example.com/v1, Kind=Widget): .spec.color: field not declared in schema"})
	got, refused := RefusalOf(err, workload.Kind{})
	if !refused || got.Reason != ReasonSchemaDiffers || !strings.Contains(got.Message, ".spec.color") {
		t.Errorf("got %+v, %v", got, refused)
	}
}
