package aggregation

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/atoll-dev/atoll/pkg/scope"
)

func TestAnAggregatedAPIIsServedInItsLogicalClusterOnly(t *testing.T) {
	t.Parallel()
	s := shared(t)
	own, other := s.NewCluster(t, "fruits"), s.NewCluster(t, "fruits-other")
	e := startExtension(t, "fruits.example.org")
	e.register(own, t, s, "127.0.0.1")
	e.trusts(own, t, s.Kube)
	awaitAvailable(own, t, s, e.group, "True", "Passed")
	client := s.Dynamic.Resource(e.resource())

	watching, err := client.Watch(own, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watching.Stop()
	if _, err := client.Create(own, fruit(e, "pear"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	select {
	case event := <-watching.ResultChan():
		if event.Type != watch.Added {
			t.Errorf("the watch shows %v", event)
		}
	case <-time.After(20 * time.Second):
		t.Error("the watch shows nothing")
	}
	list, err := client.List(own, metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 || list.Items[0].GetName() != "pear" {
		t.Errorf("%v, %v", list, err)
	}
	if _, err := client.Get(own, "pear", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	if _, err := client.Get(own, "plum", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("what the server does not have: %v", err)
	}
	for _, path := range []string{"/apis/fruits.example.org/v1/fruits", "/apis/fruits.example.org/v1", "/apis/fruits.example.org"} {
		if _, err := s.Kube.Discovery().RESTClient().Get().AbsPath(path).DoRaw(other); !apierrors.IsNotFound(err) {
			t.Errorf("%s of another logical cluster: %v, want NotFound", path, err)
		}
	}
	for _, req := range e.requests("admin") {
		if strings.Contains(req.URL.Path, "/clusters/") || !strings.HasPrefix(req.URL.Path, "/apis/fruits.example.org/v1") && !strings.HasPrefix(req.URL.Path, "/openapi/v3") {
			t.Errorf("the server sees the path %s", req.URL.Path)
		}
	}
}

func TestDiscoveryShowsWhatAnAggregatedServerServes(t *testing.T) {
	t.Parallel()
	s := shared(t)
	own, other := s.NewCluster(t, "shown"), s.NewCluster(t, "shown-other")
	e := startExtension(t, "shown.example.org")
	e.register(own, t, s, "127.0.0.1")
	awaitAvailable(own, t, s, e.group, "True", "Passed")
	for title, legacy := range map[string]bool{"aggregated discovery": false, "legacy discovery": true} {
		client := discovery.NewDiscoveryClientForConfigOrDie(scope.PinnedConfig(s.Config, scope.Scope{Cluster: "shown"}))
		client.UseLegacyDiscovery = legacy
		eventually(t, title, func() error {
			_, lists, err := client.ServerGroupsAndResources()
			if err != nil {
				return err
			}
			i := slices.IndexFunc(lists, func(l *metav1.APIResourceList) bool { return l.GroupVersion == "shown.example.org/v1" })
			if i < 0 {
				return fmt.Errorf("the version is not there")
			}
			var names []string
			for _, r := range lists[i].APIResources {
				names = append(names, fmt.Sprint(r.Name, " ", r.Kind, " ", r.ShortNames))
			}
			if diff := cmp.Diff([]string{"fruits Fruit [fr]", "fruits/status Fruit []"}, names); diff != "" {
				return fmt.Errorf("%s", diff)
			}
			return nil
		})
	}
	raw := s.Kube.Discovery().RESTClient()
	if index, err := raw.Get().AbsPath("/openapi/v3").DoRaw(own); err != nil || !strings.Contains(string(index), "/openapi/v3/apis/shown.example.org/v1?hash=ABC") {
		t.Errorf("the index of OpenAPI v3: %v", err)
	}
	if document, err := raw.Get().AbsPath("/openapi/v3/apis/shown.example.org/v1").DoRaw(own); err != nil || !strings.Contains(string(document), "fruits of shown.example.org") {
		t.Errorf("the document of OpenAPI v3: %s, %v", document, err)
	}
	for _, path := range []string{"/apis", "/openapi/v3"} {
		if text, err := raw.Get().AbsPath(path).DoRaw(other); err != nil || strings.Contains(string(text), "shown.example.org") {
			t.Errorf("%s of another logical cluster: %v", path, err)
		}
	}
	if err := s.Dynamic.Resource(apiServices).Delete(own, "v1.shown.example.org", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it goes with the APIService", func() error {
		if text, err := raw.Get().AbsPath("/apis").DoRaw(own); err != nil || strings.Contains(string(text), "shown.example.org") {
			return fmt.Errorf("it is there: %v", err)
		}
		return nil
	})
}

func TestAnAggregatedServerLearnsWhoAsksAndGetsNoCredentials(t *testing.T) {
	t.Parallel()
	s := shared(t)
	own := s.NewCluster(t, "who")
	e := startExtension(t, "who.example.org")
	e.register(own, t, s, "127.0.0.1")
	e.trusts(own, t, s.Kube)
	awaitAvailable(own, t, s, e.group, "True", "Passed")
	if _, err := s.Kube.RbacV1().ClusterRoleBindings().Create(own, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "robot"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "default", Name: "default"}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	token, err := s.Kube.CoreV1().ServiceAccounts("default").CreateToken(own, "default", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	client, err := rest.HTTPClientFor(rest.AnonymousClientConfig(s.Config))
	if err != nil {
		t.Fatal(err)
	}
	const robot = "system:serviceaccount:default:default"
	eventually(t, "the request comes", func() error {
		req, err := http.NewRequest(http.MethodGet, s.URL+"/clusters/who/apis/who.example.org/v1/fruits?limit=5", nil)
		if err != nil {
			return err
		}
		for name, value := range map[string]string{
			"Authorization": "Bearer " + token.Status.Token, "Cookie": "a=b", "Proxy-Authorization": "Basic abc",
			"Sec-Websocket-Protocol": "base64url.bearer.authorization.k8s.io.YWJj, v4.channel.k8s.io",
			"X-Remote-User":          "system:admin", "X-Remote-Group": "system:masters", "X-Remote-Extra-Scopes": "everything", "X-Remote-Uid": "0",
			"X-Remote_User": "system:admin", "X_Remote-Group": "system:masters", "x_remote_extra_scopes": "everything",
		} {
			req.Header.Set(name, value)
		}
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("%d: %s", resp.StatusCode, body)
		}
		if resp.Header.Get("Set-Cookie") != "" || !strings.HasPrefix(resp.Header.Get("Content-Security-Policy"), "sandbox") {
			t.Errorf("the answer has the headers %v", resp.Header)
		}
		return nil
	})
	seen := e.requests(robot)
	if len(seen) != 1 {
		t.Fatalf("%d requests of the robot", len(seen))
	}
	h := seen[0].Header
	got := map[string][]string{}
	for _, name := range []string{"X-Remote-Group", "X-Remote-Extra-Scopes", "Authorization", "Cookie", "Proxy-Authorization", "Sec-Websocket-Protocol"} {
		got[name] = slices.Sorted(slices.Values(h.Values(name)))
	}
	want := map[string][]string{
		"X-Remote-Group":        {"system:authenticated", "system:serviceaccounts", "system:serviceaccounts:default"},
		"X-Remote-Extra-Scopes": nil, "Authorization": nil, "Cookie": nil, "Proxy-Authorization": nil, "Sec-Websocket-Protocol": {"v4.channel.k8s.io"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if uid := h.Get("X-Remote-Uid"); uid == "" || uid == "0" {
		t.Errorf("the UID is %q", uid)
	}
	for name, values := range h {
		if strings.Contains(strings.Join(values, " "), token.Status.Token) {
			t.Errorf("the token is in %s", name)
		}
		if strings.Contains(name, "_") {
			t.Errorf("%s: %v is what some read as X-Remote-...", name, values)
		}
	}
	if name := seen[0].TLS.PeerCertificates[0].Subject.CommonName; name != "atoll-front-proxy:who" {
		t.Errorf("the control plane says that it is %s", name)
	}
}
