package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"
)

func kubeconfig(server string) string {
	return `apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: ` + server + `}}]
users: [{name: u, user: {token: x}}]
`
}

func file(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestWhatIsWrongWithTheFlagsIsSaid(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	good := file(t, kubeconfig("https://atoll:6443/clusters/root"))
	for _, c := range []struct {
		name string
		args []string
		want string
	}{
		{"nothing", nil, `required flag(s) "physical-cluster" not set`},
		{"no way to the server", []string{"--physical-cluster", "east"}, "at least one of the flags in the group [kubeconfig bootstrap-kubeconfig] is required"},
		{"two ways to the server", []string{"--physical-cluster", "east", "--kubeconfig", good, "--bootstrap-kubeconfig", good}, "[bootstrap-kubeconfig kubeconfig] were all set"},
		{"an argument", []string{"--physical-cluster", "east", "--kubeconfig", good, "east"}, `unknown command "east"`},
		{"a file that is not there", []string{"--physical-cluster", "east", "--kubeconfig", "/nowhere"}, "reading the kubeconfig of the Atoll server: stat /nowhere: no such file or directory"},
		{"an empty file", []string{"--physical-cluster", "east", "--kubeconfig", file(t, "")}, "reading the kubeconfig of the Atoll server: invalid configuration"},
		{"a file that is no kubeconfig", []string{"--physical-cluster", "east", "--kubeconfig", file(t, "[")}, "reading the kubeconfig of the Atoll server: "},
		{"a broken scope", []string{"--physical-cluster", "east", "--kubeconfig", file(t, kubeconfig("https://atoll:6443/clusters/NO")), "--physical-kubeconfig", good}, "reading the address of the Atoll server: "},
		{"no way to the physical cluster", []string{"--physical-cluster", "east", "--kubeconfig", good}, "--physical-kubeconfig is missing"},
		{"a wrong way to the physical cluster", []string{"--physical-cluster", "east", "--kubeconfig", good, "--physical-kubeconfig", "/nowhere"}, "reading the kubeconfig of the physical cluster: stat /nowhere"},
		{"a name that none can have", []string{"--physical-cluster", "East!", "--kubeconfig", good, "--physical-kubeconfig", good}, `physical cluster "East!"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			command := newCommand()
			command.SetArgs(c.args)
			command.SilenceErrors = true
			var out bytes.Buffer
			command.SetOut(&out)
			command.SetErr(&out)
			err := command.Execute()
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v", err)
			}
			if strings.Contains(out.String(), "Usage:") {
				t.Errorf("the sentence is buried under the usage:\n%s", &out)
			}
		})
	}
}

func TestItEndsWhenItIsAskedTo(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	path := file(t, kubeconfig("http://127.0.0.1:1"))
	o := options{physicalCluster: "east", kubeconfig: path, physicalKubeconfig: path, healthAddress: "127.0.0.1:0"}
	if err := o.run(ctx); err != nil {
		t.Error(err)
	}
}

func TestTheScopeOfAKubeconfigIsLeftOut(t *testing.T) {
	for host, want := range map[string]string{
		"https://atoll:6443/clusters/root":              "https://atoll:6443/",
		"https://atoll:6443/targets/east/clusters/root": "https://atoll:6443/",
		"https://atoll:6443":                            "https://atoll:6443",
		"https://proxy/atoll":                           "https://proxy/atoll",
	} {
		c, err := unscoped(&rest.Config{Host: host})
		if err != nil {
			t.Errorf("%s: %v", host, err)
			continue
		}
		if diff := cmp.Diff(want, c.Host); diff != "" {
			t.Errorf("%s (-want +got)\n%s", host, diff)
		}
	}
}
