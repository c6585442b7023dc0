package edit

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/kcp-dev/logicalcluster/v3"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/atoll-dev/atoll/pkg/scope"
)

// Server is the URL of a logical cluster at the server that another URL leads to,
// whichever logical cluster that one names.
func Server(server string, cluster logicalcluster.Name) (string, error) {
	u, err := url.Parse(server)
	if err != nil || u.Host == "" {
		return "", fmt.Errorf("%q is no URL of a server", server)
	}
	u.Path, u.RawPath = scope.Scope{Cluster: cluster}.Path(), ""
	return u.String(), nil
}

// Use makes a context for a logical cluster, or finds the one that there is, and makes it
// the current one: the same server and user as those of the context from, in the default
// namespace. It is called name.
func Use(config *clientcmdapi.Config, from string, cluster logicalcluster.Name, name string) error {
	source := config.Contexts[from]
	if source == nil {
		return fmt.Errorf("there is no context %q in the kubeconfig to take server and user from; name one with --context", from)
	}
	old := config.Clusters[source.Cluster]
	if old == nil {
		return fmt.Errorf("context %q names the cluster %q, which is not in the kubeconfig", from, source.Cluster)
	}
	server, err := Server(old.Server, cluster)
	if err != nil {
		return fmt.Errorf("cluster %q: server: %w", source.Cluster, err)
	}
	if there := config.Contexts[name]; there != nil {
		target := config.Clusters[there.Cluster]
		if target == nil || target.Server != server || there.AuthInfo != source.AuthInfo {
			return fmt.Errorf("the kubeconfig has a context %q for something else; choose another name with --as-context", name)
		}
		config.CurrentContext = name
		return nil
	}
	entry, err := clusterEntry(config, old, server, name)
	if err != nil {
		return err
	}
	config.Contexts[name] = &clientcmdapi.Context{
		LocationOfOrigin: source.LocationOfOrigin, Cluster: entry, AuthInfo: source.AuthInfo,
	}
	config.CurrentContext = name
	return nil
}

// clusterEntry is the name of the entry for a server, which is made if need be.
func clusterEntry(config *clientcmdapi.Config, old *clientcmdapi.Cluster, server, name string) (string, error) {
	if there := config.Clusters[name]; there != nil {
		if there.Server != server {
			return "", fmt.Errorf("the kubeconfig has a cluster %q at %s; choose another name with --as-context", name, there.Server)
		}
		return name, nil
	}
	entry := old.DeepCopy()
	entry.Server = server
	config.Clusters[name] = entry
	return name, nil
}

// ContextsOf are the contexts of a kubeconfig for a logical cluster of the server that a
// URL leads to, sorted.
func ContextsOf(config *clientcmdapi.Config, server string, cluster logicalcluster.Name) []string {
	wanted, err := Server(server, cluster)
	if err != nil {
		return nil
	}
	var names []string
	for name, c := range config.Contexts {
		if entry := config.Clusters[c.Cluster]; entry != nil && strings.TrimSuffix(entry.Server, "/") == wanted {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
