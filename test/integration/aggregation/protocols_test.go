package aggregation

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	certutil "k8s.io/client-go/util/cert"

	"github.com/atoll-dev/atoll/pkg/scope"
)

func TestAnUpgradedConnectionReachesTheServer(t *testing.T) {
	t.Parallel()
	s := shared(t)
	own := s.NewCluster(t, "upgrades")
	e := startExtension(t, "upgrades.example.org")
	e.register(own, t, s, "127.0.0.1")
	awaitAvailable(own, t, s, e.group, "True", "Passed")
	e.answers(func(w http.ResponseWriter, req *http.Request) {
		conn, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		defer func() { _ = conn.Close() }()
		fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n%s of %q says ", req.Header.Get("X-Remote-User"), req.Header.Get("Authorization"))
		line, _ := buffered.ReadString('\n')
		_, _ = conn.Write([]byte(line))
	})
	config, err := rest.TLSConfigFor(s.Config)
	if err != nil {
		t.Fatal(err)
	}
	config.NextProtos = []string{"http/1.1"}
	conn, err := tls.Dial("tcp", strings.TrimPrefix(s.URL, "https://"), config)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	fmt.Fprintf(conn, "GET /clusters/upgrades/apis/upgrades.example.org/v1/fruits/a/exec HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer secret\r\nX-Remote-User: somebody\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	reader := bufio.NewReader(conn)
	resp, err := http.ReadResponse(reader, nil)
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("the answer is %v, %v", resp, err)
	}
	fmt.Fprintln(conn, "hello")
	if text, err := io.ReadAll(reader); string(text) != "admin of \"\" says hello\n" {
		t.Errorf("got %q, %v", text, err)
	}
}

func TestACertificateForTheNameOfTheServiceIsTakenAndNoOther(t *testing.T) {
	t.Parallel()
	s := shared(t)
	own := s.NewCluster(t, "names")
	for group, right := range map[string]bool{"right.example.org": true, "wrong.example.org": false} {
		name := "other.default.svc"
		if right {
			name = "right-example-org.default.svc"
		}
		cert, key, err := certutil.GenerateSelfSignedCertKey(name, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			t.Fatal(err)
		}
		e := startExtension(t, group, pair)
		e.register(own, t, s, "127.0.0.1")
		patch, err := json.Marshal(map[string]any{"spec": map[string]any{"insecureSkipTLSVerify": nil, "caBundle": cert}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Dynamic.Resource(apiServices).Patch(own, "v1."+group, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		if right {
			awaitAvailable(own, t, s, group, "True", "Passed")
		} else if message := awaitAvailable(own, t, s, group, "False", "FailedDiscoveryCheck"); !strings.Contains(message, "wrong-example-org.default.svc") {
			t.Errorf("the message is %q", message)
		}
	}
}

func TestAnAPIServiceWinsOverADefinitionUntilItGoes(t *testing.T) {
	t.Parallel()
	s := shared(t)
	own, other := s.NewCluster(t, "both"), s.NewCluster(t, "both-other")
	e := startExtension(t, "both.example.org")
	definitions := clientset.NewForConfigOrDie(scope.ScopedConfig(s.Config)).ApiextensionsV1().CustomResourceDefinitions()
	client := s.Dynamic.Resource(e.resource())
	keep := true
	version := func(name string, stored bool) apiextensionsv1.CustomResourceDefinitionVersion {
		return apiextensionsv1.CustomResourceDefinitionVersion{Name: name, Served: true, Storage: stored, Schema: &apiextensionsv1.CustomResourceValidation{
			OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &keep}}}
	}
	crd := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "fruits.both.example.org"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: e.group, Scope: apiextensionsv1.ClusterScoped, Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "fruits", Kind: "Fruit"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{version("v1", true), version("v2", false)},
		},
	}
	names := func() string {
		list, err := client.List(own, metav1.ListOptions{})
		if err != nil {
			return err.Error()
		}
		var out []string
		for _, item := range list.Items {
			out = append(out, item.GetName())
		}
		return fmt.Sprint(out)
	}
	if _, err := definitions.Create(own, crd, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Create(own, fruit(e, "custom"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := definitions.Create(other, crd, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	e.register(own, t, s, "127.0.0.1")
	awaitAvailable(own, t, s, e.group, "True", "Passed")
	eventually(t, "the server answers", func() error {
		if got := names(); got != "[]" {
			return fmt.Errorf("got %s", got)
		}
		return nil
	})
	v2 := e.resource()
	v2.Version = "v2"
	if _, err := s.Dynamic.Resource(v2).Get(own, "custom", metav1.GetOptions{}); err != nil {
		t.Errorf("another version of the group: %v", err)
	}
	if _, err := client.Create(other, fruit(e, "theirs"), metav1.CreateOptions{}); err != nil {
		t.Errorf("the definition of another logical cluster: %v", err)
	}
	if err := s.Dynamic.Resource(apiServices).Delete(own, "v1.both.example.org", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the definition is served again", func() error {
		if got := names(); got != "[custom]" {
			return fmt.Errorf("got %s", got)
		}
		return nil
	})
	root := scope.WithCluster(t.Context(), scope.Root)
	if err := s.Atoll.TenancyV1alpha1().LogicalClusters().Delete(root, "both", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the logical cluster goes", func() error {
		if lc, err := s.Atoll.TenancyV1alpha1().LogicalClusters().Get(root, "both", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there: %v, %v", lc.Status.Conditions, err)
		}
		return nil
	})
}
