package pki

import (
	"crypto/x509"
	"testing"

	"k8s.io/client-go/util/cert"

	"github.com/atoll-dev/atoll/pkg/scope"
)

func TestTheKubeconfigOfOneLogicalClusterHasACertificateForIt(t *testing.T) {
	t.Parallel()
	keys, err := Load(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for want, scopes := range map[string]map[string]scope.Scope{
		"shop": {"shop": {Cluster: "shop"}},
		"":     {"shop": {Cluster: "shop"}, "web": {Cluster: "web"}},
	} {
		if got := clusterIn(t, keys, scopes); got != want {
			t.Errorf("%v: the certificate is for %q", scopes, got)
		}
	}
	if got := clusterIn(t, keys, map[string]scope.Scope{"root": {Cluster: scope.Root}}); got != "" {
		t.Errorf("the admin's certificate is for %q", got)
	}
	if got := clusterIn(t, keys, map[string]scope.Scope{"east": {}}); got != "" {
		t.Errorf("the certificate of a syncer is for %q", got)
	}
}

func clusterIn(t *testing.T, keys *PKI, scopes map[string]scope.Scope) string {
	t.Helper()
	config, err := keys.Config(Kubeconfig{Server: "https://127.0.0.1:6443", User: "admin", Scopes: scopes})
	if err != nil {
		t.Fatal(err)
	}
	var certs []*x509.Certificate
	if certs, err = cert.ParseCertsPEM(config.AuthInfos["admin"].ClientCertificateData); err != nil {
		t.Fatal(err)
	}
	cluster, _ := ClusterOf(certs[0])
	return cluster.String()
}
