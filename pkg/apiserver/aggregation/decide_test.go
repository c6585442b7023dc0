package aggregation

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/atoll-dev/atoll/pkg/apiserver/egress"
)

func TestTheConditionIsThatOfTheTable(t *testing.T) {
	t.Parallel()
	ref, now := &apiregistrationv1.ServiceReference{Namespace: "default", Name: "metrics"}, metav1.Unix(1, 0)
	missing := fmt.Errorf("looking: %w", apierrors.NewNotFound(corev1.Resource("services"), "metrics"))
	nowhere := &egress.UnlocatedError{Reason: egress.MissingEndpoints, Message: "nowhere"}
	for _, c := range []struct {
		saw             sight
		status          apiregistrationv1.ConditionStatus
		reason, message string
	}{
		{sight{}, "True", "Passed", "all checks passed"},
		{sight{rank: maxServices - 1}, "True", "Passed", "all checks passed"},
		{sight{rank: maxServices, located: missing}, "False", "TooManyAPIServices", "a logical cluster may have 32 APIServices that name a Service, and the older ones count"},
		{sight{located: missing}, "False", "ServiceNotFound", `service/metrics in "default" is not present`},
		{sight{located: nowhere}, "False", "MissingEndpoints", "nowhere"},
		{sight{located: errors.New("timeout")}, "Unknown", "ServiceAccessError", `service/metrics in "default" cannot be checked due to: timeout`},
		{sight{answer: errors.New("refused")}, "False", "FailedDiscoveryCheck", "refused"},
	} {
		want := apiregistrationv1.APIServiceCondition{Type: apiregistrationv1.Available, Status: c.status, LastTransitionTime: now, Reason: c.reason, Message: c.message}
		if diff := cmp.Diff(want, c.saw.condition(ref, now)); diff != "" {
			t.Errorf("%v: %s", c.saw, diff)
		}
	}
}

func TestAnErrorIsTheSameWhateverPortIsOurs(t *testing.T) {
	t.Parallel()
	err := func(port int) error {
		return fmt.Errorf("asking: %w", &net.OpError{Op: "read", Net: "tcp", Source: &net.TCPAddr{Port: port}, Err: errors.New("connection reset by peer")})
	}
	if diff := cmp.Diff(steady(err(1)).Error(), steady(err(2)).Error()); diff != "" {
		t.Error(diff)
	}
	denied := fmt.Errorf("dialing: %w", &egress.DeniedError{Address: "127.0.0.1:443"})
	if diff := cmp.Diff("the control plane does not call 127.0.0.1:443: its administrator may allow the address with --tenant-egress-allow", steady(denied).Error()); diff != "" {
		t.Error(diff)
	}
}

func TestADocumentIsReadAsDiscoveryShowsIt(t *testing.T) {
	t.Parallel()
	got := readDocument("example.org", "v1", []byte(`{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"other/v9","resources":[
		{"name":"fruits","singularName":"fruit","namespaced":true,"kind":"Fruit","verbs":["get"]},
		{"name":"fruits/scale","namespaced":true,"group":"autoscaling","version":"v1","kind":"Scale","verbs":["get"]},
		{"name":"","kind":"Nothing","verbs":["get"]},{"name":"mute","kind":"Mute","verbs":[]}]}`))
	want := []apidiscoveryv2.APIResourceDiscovery{{
		Resource: "fruits", SingularResource: "fruit", Scope: apidiscoveryv2.ScopeNamespace, Verbs: metav1.Verbs{"get"},
		ResponseKind: &metav1.GroupVersionKind{Group: "example.org", Version: "v1", Kind: "Fruit"},
		Subresources: []apidiscoveryv2.APISubresourceDiscovery{{
			Subresource: "scale", Verbs: metav1.Verbs{"get"}, ResponseKind: &metav1.GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: "Scale"},
		}},
	}}
	if diff := cmp.Diff(want, got.resources); diff != "" {
		t.Error(diff)
	}
	for _, body := range []string{"", "<html>", `[1]`, `{"resources":7}`, `{"resources":[{"name":"a","namespaced":true,"verbs":["get"]},{"name":"a/b","verbs":["get"]}]}`} {
		if diff := cmp.Diff(document{}, readDocument("example.org", "v1", []byte(body)), cmp.AllowUnexported(document{})); diff != "" {
			t.Errorf("%s: %s", body, diff)
		}
	}
}

func TestAHashIsTakenFromAnIndexIfItIsOne(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"paths":{"apis/example.org/v1":{"serverRelativeURL":"/openapi/v3/apis/example.org/v1?hash=AB12"}}}`: "AB12",
		`{"paths":{"apis/example.org/v1":{"serverRelativeURL":"https://evil.example.com/?hash=a%2F..%2Fb"}}}`: "",
		`{"paths":{"apis/other/v1":{"serverRelativeURL":"/openapi/v3/apis/other/v1?hash=AB12"}}}`:             "",
		`nothing`: "",
	} {
		if got := readOpenAPIHash([]byte(body), "/apis/example.org/v1"); got != want {
			t.Errorf("%s: got %q, want %q", body, got, want)
		}
	}
}

func TestCredentialsAreRemovedAndNothingElse(t *testing.T) {
	t.Parallel()
	h := http.Header{
		"Authorization": {"Bearer a"}, "Proxy-Authorization": {"Basic b"}, "Cookie": {"c"}, "Accept": {"d"},
		"X-Remote_User": {"g"}, "X_Remote_Group": {"h"}, "x-remote-extra-scopes": {"i"},
		"Sec-Websocket-Protocol": {"base64url.bearer.authorization.k8s.io.e", "v5.channel.k8s.io, base64url.bearer.authorization.k8s.io.f"},
	}
	withoutCredentials(h)
	if diff := cmp.Diff(http.Header{"Accept": {"d"}, "Sec-Websocket-Protocol": {"v5.channel.k8s.io"}}, h); diff != "" {
		t.Error(diff)
	}
}

func TestAPathBelongsToAVersionOfAGroup(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"/apis/example.org/v1": "example.org v1", "/apis/example.org/v1/fruits/a": "example.org v1",
		"/apis/example.org": "", "/apis/example.org/": "", "/apis//v1": "", "/api/v1/pods": "", "/apis": "", "/": "",
	} {
		got := ""
		if group, version, ok := groupVersion(path); ok {
			got = group + " " + version
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", path, got, want)
		}
	}
}

func TestWhoReadsThatAnAPIIsAvailableIsServed(t *testing.T) {
	t.Parallel()
	const unknown, condition = "it is not known where the server is", "its APIService says why"
	at := []string{"10.0.0.1:443"}
	for _, c := range []struct {
		title     string
		available bool
		known     *state
		want      string
	}{
		{"nothing is known", false, nil, condition},
		{"another server says so", true, nil, unknown},
		{"a check never found it", true, &state{}, unknown},
		{"the informer is late", false, &state{hosts: at, fresh: true}, ""},
		{"all agree", true, &state{hosts: at, fresh: true}, ""},
		{"another server reaches it", true, &state{hosts: at}, ""},
		{"nobody reaches it", false, &state{hosts: at}, condition},
	} {
		if got := refused(c.available, c.known); got != c.want {
			t.Errorf("%s: %q, want %q", c.title, got, c.want)
		}
	}
}
