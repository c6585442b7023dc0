package pki

import (
	"errors"
	"fmt"
	"net/url"
	"os"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/atoll-dev/atoll/pkg/scope"
)

// Kubeconfig describes who talks to what.
type Kubeconfig struct {
	// Server is the base URL of the control plane, without a scope.
	Server string
	// User and Groups go into the client certificate.
	User   string
	Groups []string
	// Scopes by the name of their context; the empty scope is the base URL.
	Scopes map[string]scope.Scope
	// Current is the current context.
	Current string
}

// Write issues a client certificate and writes a kubeconfig to path; contexts
// that a kubeconfig there already has for the same server are kept.
func (p *PKI) Write(path string, k Kubeconfig) error {
	config, err := p.Config(k)
	if err != nil {
		return err
	}
	old, err := clientcmd.LoadFromFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("reading %s: %w", path, err)
	}
	if old != nil {
		for name, c := range old.Contexts {
			cluster := old.Clusters[c.Cluster]
			if config.Contexts[name] != nil || cluster == nil || c.AuthInfo != k.User {
				continue
			}
			s, _, ok, err := scope.Cut(pathOf(cluster.Server) + "/")
			if err != nil || !ok {
				continue
			}
			cluster.Server, cluster.CertificateAuthorityData = k.Server+s.Path(), p.CAPEM
			config.Contexts[name], config.Clusters[c.Cluster] = c, cluster
		}
	}
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}

// Config issues a client certificate and returns a kubeconfig with it. If there
// is one scope only, not that of root, the certificate is meant for its logical cluster.
func (p *PKI) Config(k Kubeconfig) (*clientcmdapi.Config, error) {
	var cluster []*url.URL
	for _, s := range k.Scopes {
		if len(k.Scopes) == 1 && s.Cluster != "" && s.Cluster != scope.Root {
			cluster = append(cluster, &url.URL{Scheme: clusterScheme, Opaque: s.Cluster.String()})
		}
	}
	cert, key, err := p.client(k.User, k.Groups, cluster...)
	if err != nil {
		return nil, err
	}
	config := clientcmdapi.NewConfig()
	config.CurrentContext = k.Current
	config.AuthInfos[k.User] = &clientcmdapi.AuthInfo{ClientCertificateData: cert, ClientKeyData: key}
	for name, s := range k.Scopes {
		server := k.Server
		if s.Cluster != "" {
			server += s.Path()
		}
		config.Clusters[name] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: p.CAPEM}
		config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: k.User}
	}
	return config, nil
}

func pathOf(server string) string {
	u, err := url.Parse(server)
	if err != nil {
		return ""
	}
	return u.Path
}
