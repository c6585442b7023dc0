package app

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/kcp-dev/logicalcluster/v3"
	"k8s.io/client-go/tools/clientcmd"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/atoll-dev/atoll/pkg/apiserver/auth"
	"github.com/atoll-dev/atoll/pkg/apiserver/pki"
	"github.com/atoll-dev/atoll/pkg/scope"
)

const adminUser = "admin"

// lockDir takes the data directory for this process; release gives it back.
func lockDir(dir string) (release func(), err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("creating the data directory: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the lock of the data directory: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("the data directory %s is in use by another atoll process; stop that one or choose another --data-dir", dir)
	}
	return func() { _ = f.Close() }, nil
}

func pkiDir(dataDir string) string { return filepath.Join(dataDir, "pki") }

// writeKubeconfig writes the admin's kubeconfig with a context for root and for
// each of names.
func writeKubeconfig(keys *pki.PKI, dataDir, server string, names []string) (string, error) {
	scopes := map[string]scope.Scope{scope.Root.String(): {Cluster: scope.Root}}
	for _, n := range names {
		scopes[n] = scope.Scope{Cluster: logicalcluster.Name(n)}
	}
	path := kubeconfigPath(dataDir)
	return path, keys.Write(path, pki.Kubeconfig{
		Server: server, User: adminUser, Groups: []string{user.SystemPrivilegedGroup}, Scopes: scopes, Current: scope.Root.String(),
	})
}

// Kubeconfig issues a kubeconfig from the data directory of a server that has
// been started before: an admin's for a logical cluster, or a syncer's.
func Kubeconfig(dataDir, name string, syncer bool) ([]byte, error) {
	if problem := scope.ValidateName(name); problem != "" {
		return nil, fmt.Errorf("%q: %s", name, problem)
	}
	path := kubeconfigPath(dataDir)
	admin, err := clientcmd.LoadFromFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%s does not exist: start the server with this --data-dir first", path)
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	root := admin.Clusters[scope.Root.String()]
	if root == nil {
		return nil, fmt.Errorf("%s has no cluster %q", path, scope.Root)
	}
	u, err := url.Parse(root.Server)
	if err != nil {
		return nil, fmt.Errorf("reading the server of %s: %w", path, err)
	}
	keys, err := pki.Load(pkiDir(dataDir))
	if err != nil {
		return nil, err
	}
	k := pki.Kubeconfig{
		Server: strings.TrimSuffix(u.Scheme+"://"+u.Host, "/"), User: adminUser, Groups: []string{user.SystemPrivilegedGroup},
		Scopes: map[string]scope.Scope{name: {Cluster: logicalcluster.Name(name)}}, Current: name,
	}
	if syncer {
		k.User, k.Groups = auth.SyncerUser(name), []string{auth.SyncersGroup}
		k.Scopes = map[string]scope.Scope{name: {}} // the syncer names its scopes itself
	}
	config, err := keys.Config(k)
	if err != nil {
		return nil, err
	}
	return clientcmd.Write(*config)
}

func writePrivate(path string, data []byte) error {
	if err := os.WriteFile(path, data, 0o600); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}
