package push

import (
	"strings"
	"testing"
)

func kubeconfig(cluster, user string) string {
	return `apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {` + cluster + `}}]
users: [{name: u, user: {` + user + `}}]
`
}

func TestAKubeconfigThatCannotBeUsedIsExplainedWithoutItsContent(t *testing.T) {
	const secret = "hunter2"
	for name, c := range map[string]struct{ text, want string }{
		"not YAML":               {"token: [" + secret, "not valid YAML"},
		"another kind":           {"apiVersion: v1\nkind: Secret\n", "not valid YAML of kind Config"},
		"empty":                  {"{}", "current-context"},
		"no such context":        {"apiVersion: v1\nkind: Config\ncurrent-context: " + secret, "current-context"},
		"no server":              {kubeconfig("", "token: "+secret), "not an http(s) URL"},
		"a broken server":        {kubeconfig("server: '"+secret+"'", "token: x"), "not an http(s) URL"},
		"a program":              {kubeconfig("server: https://h", "exec: {apiVersion: client.authentication.k8s.io/v1, command: sh, interactiveMode: Never}"), "users.exec"},
		"a file with a token":    {kubeconfig("server: https://h", "tokenFile: /var/run/secrets/token"), "users.tokenFile"},
		"a file with a key":      {kubeconfig("server: https://h", "client-key: /etc/kubernetes/pki/ca.key"), "users.client-key"},
		"a file with a CA":       {kubeconfig("server: https://h, certificate-authority: /etc/passwd", "token: x"), "clusters.certificate-authority"},
		"certificates that fail": {kubeconfig("server: https://h, certificate-authority-data: "+"aHVudGVyMg==", "token: "+secret), "cannot be used"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parse([]byte(c.text))
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), secret) {
				t.Errorf("got %v", err)
			}
		})
	}
	if config, err := parse([]byte(kubeconfig("server: https://h:6443", "token: x"))); err != nil || config.Host != "https://h:6443" {
		t.Errorf("a good one: %v %v", config, err)
	}
}
