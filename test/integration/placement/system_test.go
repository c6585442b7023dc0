package placement

import (
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// systemConfig is that of a client which the server takes for itself.
func systemConfig(t *testing.T) *rest.Config {
	t.Helper()
	return shared.SystemConfig(t)
}

func systemKube(t *testing.T) kubernetes.Interface {
	return kubernetes.NewForConfigOrDie(systemConfig(t))
}
