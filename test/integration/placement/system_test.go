package placement

import (
	"path/filepath"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/atoll-dev/atoll/pkg/apiserver/pki"
	"github.com/atoll-dev/atoll/pkg/scope"
)

// systemConfig is that of a client which the server takes for itself: tests use
// it to play parts that other controllers have.
func systemConfig(t *testing.T) *rest.Config {
	t.Helper()
	keys, err := pki.Load(filepath.Join(shared.Dir, "pki"))
	if err != nil {
		t.Fatal(err)
	}
	config := rest.AnonymousClientConfig(shared.Config)
	config.CertData, config.KeyData, err = keys.Client(user.APIServerUser, user.SystemPrivilegedGroup)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	return scope.ScopedConfig(config)
}

func systemKube(t *testing.T) kubernetes.Interface {
	return kubernetes.NewForConfigOrDie(systemConfig(t))
}
