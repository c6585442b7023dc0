package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func file(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const kubeconfig = `apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: u, user: {token: x}}]
`

func TestWhatIsWrongWithTheFlagsIsSaid(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	t.Setenv("POD_NAMESPACE", "")
	good := file(t, kubeconfig)
	for _, c := range []struct {
		name string
		args []string
		want string
	}{
		{"no namespace", []string{"--kubeconfig", good}, "--namespace is missing"},
		{"no kubeconfig", []string{"--namespace", "atoll-dns"}, "--kubeconfig is missing"},
		{"a kubeconfig that is not there", []string{"--namespace", "atoll-dns", "--kubeconfig", "/nowhere"}, "reading the kubeconfig of the physical cluster: stat /nowhere"},
		{"a resolver that is a name", []string{"--namespace", "atoll-dns", "--kubeconfig", good, "--upstream", "resolver.example.com"}, `the resolver "resolver.example.com" to ask is no address`},
		{"no resolver", []string{"--namespace", "atoll-dns", "--kubeconfig", good, "--resolv-conf", file(t, "search example.com\n")}, "names no resolver to ask: name one with --upstream"},
		{"an argument", []string{"x"}, `unknown command "x"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			command := newCommand()
			command.SetArgs(c.args)
			command.SilenceErrors = true
			var out bytes.Buffer
			command.SetOut(&out)
			command.SetErr(&out)
			if err := command.Execute(); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v", err)
			}
		})
	}
}

// A physical cluster that does not answer is no reason to end, nor to answer.
func TestItEndsWhenItIsAskedTo(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out bytes.Buffer
	o := options{kubeconfig: file(t, kubeconfig), namespace: "atoll-dns", upstreams: []string{"127.0.0.1:1"}, healthAddress: "127.0.0.1:0"}
	if err := o.run(ctx, &out); err != nil {
		t.Error(err)
	}
	if out.Len() > 0 {
		t.Errorf("it said %q before it knew anything", &out)
	}
}
