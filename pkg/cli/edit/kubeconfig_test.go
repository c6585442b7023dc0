package edit

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

func kubeconfig() *clientcmdapi.Config {
	c := clientcmdapi.NewConfig()
	c.Clusters["root"] = &clientcmdapi.Cluster{Server: "https://atoll:6443/clusters/root", CertificateAuthorityData: []byte("ca")}
	c.Clusters["kind"] = &clientcmdapi.Cluster{Server: "https://kind:6443"}
	c.AuthInfos["admin"] = &clientcmdapi.AuthInfo{Token: "t"}
	c.Contexts["root"] = &clientcmdapi.Context{Cluster: "root", AuthInfo: "admin", Namespace: "atoll-system"}
	c.Contexts["kind"] = &clientcmdapi.Context{Cluster: "kind", AuthInfo: "admin"}
	c.CurrentContext = "root"
	return c
}

func TestUsingALogicalClusterAddsAContextWithTheSameUserAndServer(t *testing.T) {
	got := kubeconfig()
	if err := Use(got, "root", "shop", "shop"); err != nil {
		t.Fatal(err)
	}
	want := kubeconfig()
	want.Clusters["shop"] = &clientcmdapi.Cluster{Server: "https://atoll:6443/clusters/shop", CertificateAuthorityData: []byte("ca")}
	want.Contexts["shop"] = &clientcmdapi.Context{Cluster: "shop", AuthInfo: "admin"}
	want.CurrentContext = "shop"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// Back, and there again: nothing but the current context changes.
	if err := Use(got, "shop", "root", "root"); err != nil {
		t.Fatal(err)
	}
	want.CurrentContext = "root"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("back (-want +got):\n%s", diff)
	}
	got.Contexts["shop"].Namespace, want.Contexts["shop"].Namespace = "web", "web"
	if err := Use(got, "root", "shop", "shop"); err != nil {
		t.Fatal(err)
	}
	want.CurrentContext = "shop"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("there again (-want +got):\n%s", diff)
	}
}

func TestAContextForSomethingElseIsNotOverwritten(t *testing.T) {
	for name, c := range map[string]struct {
		from, as string
		change   func(*clientcmdapi.Config)
		want     string
	}{
		"a context of another server": {"root", "kind", nil, "--as-context"},
		"a context of another user": {"root", "shop", func(c *clientcmdapi.Config) {
			c.Clusters["shop"] = &clientcmdapi.Cluster{Server: "https://atoll:6443/clusters/shop"}
			c.Contexts["shop"] = &clientcmdapi.Context{Cluster: "shop", AuthInfo: "alice"}
		}, "--as-context"},
		"a cluster of the name": {"root", "shop", func(c *clientcmdapi.Config) {
			c.Clusters["shop"] = &clientcmdapi.Cluster{Server: "https://elsewhere"}
		}, "https://elsewhere"},
		"no context to begin with": {"", "shop", nil, "name one with --context"},
		"a broken context": {"broken", "shop", func(c *clientcmdapi.Config) {
			c.Contexts["broken"] = &clientcmdapi.Context{Cluster: "gone"}
		}, `"gone"`},
		"a broken server": {"root", "shop", func(c *clientcmdapi.Config) { c.Clusters["root"].Server = "%" }, "no URL"},
	} {
		t.Run(name, func(t *testing.T) {
			config := kubeconfig()
			if c.change != nil {
				c.change(config)
			}
			before := config.DeepCopy()
			if err := Use(config, c.from, "shop", c.as); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if diff := cmp.Diff(before, config); diff != "" {
				t.Errorf("the kubeconfig changed (-before +after):\n%s", diff)
			}
		})
	}
}

func TestTheURLOfALogicalCluster(t *testing.T) {
	for server, want := range map[string]string{
		"https://atoll:6443":                            "https://atoll:6443/clusters/shop",
		"https://atoll:6443/":                           "https://atoll:6443/clusters/shop",
		"https://atoll:6443/clusters/root":              "https://atoll:6443/clusters/shop",
		"https://atoll:6443/clusters/root/":             "https://atoll:6443/clusters/shop",
		"https://atoll:6443/targets/east/clusters/root": "https://atoll:6443/clusters/shop",
		"atoll:6443":                                    "",
		"":                                              "",
	} {
		if got, err := Server(server, "shop"); got != want || (err != nil) != (want == "") {
			t.Errorf("%s: %q %v, want %q", server, got, err, want)
		}
	}
}

func TestContextsOfALogicalClusterAreFound(t *testing.T) {
	c := kubeconfig()
	c.Clusters["root2"] = &clientcmdapi.Cluster{Server: "https://atoll:6443/clusters/root/"}
	c.Clusters["other"] = &clientcmdapi.Cluster{Server: "https://other:6443/clusters/root"}
	c.Contexts["admin"] = &clientcmdapi.Context{Cluster: "root2"}
	c.Contexts["other"] = &clientcmdapi.Context{Cluster: "other"}
	c.Contexts["broken"] = &clientcmdapi.Context{Cluster: "gone"}
	if diff := cmp.Diff([]string{"admin", "root"}, ContextsOf(c, "https://atoll:6443/clusters/shop", "root")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
