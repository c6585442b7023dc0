package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/kcp-dev/logicalcluster/v3"
	"github.com/spf13/cobra"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/atoll-dev/atoll/pkg/cli/edit"
	"github.com/atoll-dev/atoll/pkg/generated/clientset/versioned"
	"github.com/atoll-dev/atoll/pkg/scope"
)

// connection is a way to the server. Its clients take the logical cluster of each request
// from the context.
type connection struct {
	// cluster is the logical cluster that the kubeconfig's context points to.
	cluster logicalcluster.Name
	config  *rest.Config
	atoll   versioned.Interface
	kube    kubernetes.Interface
	dynamic dynamic.Interface
}

// connect connects to the server of the kubeconfig.
func (o *options) connect() (*connection, error) {
	config, err := o.flags.ToRESTConfig()
	if err != nil {
		return nil, err
	}
	config, s, ok, err := scope.UnscopedConfig(config)
	if err != nil {
		return nil, fmt.Errorf("the server of %s: %w", o.contextName(), err)
	}
	if !ok || s.Target != "" || s.Cluster == scope.Wildcard {
		return nil, fmt.Errorf("%s points to %s, which is no logical cluster of an Atoll server: its URL would end in /clusters/<name>. "+
			"Name another context with --context, or make one with: kubectl atoll lc use NAME", o.contextName(), config.Host)
	}
	c := &connection{cluster: s.Cluster, config: scope.ScopedConfig(config)}
	if c.atoll, err = versioned.NewForConfig(c.config); err != nil {
		return nil, err
	}
	if c.kube, err = kubernetes.NewForConfig(c.config); err != nil {
		return nil, err
	}
	c.dynamic, err = dynamic.NewForConfig(c.config)
	return c, err
}

// inRoot connects to root, or says that the command is for root.
func (o *options) inRoot(cmd *cobra.Command) (context.Context, *connection, error) {
	c, err := o.connect()
	if err != nil {
		return nil, nil, err
	}
	if c.cluster != scope.Root {
		return nil, nil, fmt.Errorf("%q is for the logical cluster %q, where the physical and logical clusters are listed; %s points to %q. %s",
			cmd.CommandPath(), scope.Root, o.contextName(), c.cluster, o.wayTo(c.config.Host, scope.Root))
	}
	return scope.WithCluster(cmd.Context(), scope.Root), c, nil
}

// inCluster connects to a logical cluster, or says that root is none that has namespaces
// which run anywhere.
func (o *options) inCluster(cmd *cobra.Command) (context.Context, *connection, error) {
	c, err := o.connect()
	if err != nil {
		return nil, nil, err
	}
	if c.cluster == scope.Root {
		return nil, nil, fmt.Errorf("%q is for a logical cluster with namespaces that run; %s points to %q, where nothing runs. "+
			"List them with: kubectl atoll lc list; point to one with: kubectl atoll lc use NAME", cmd.CommandPath(), o.contextName(), scope.Root)
	}
	return scope.WithCluster(cmd.Context(), c.cluster), c, nil
}

// wayTo says how to point to another logical cluster of the same server.
func (o *options) wayTo(server string, cluster logicalcluster.Name) string {
	raw, err := o.flags.ToRawKubeConfigLoader().RawConfig()
	if err == nil {
		if contexts := edit.ContextsOf(&raw, server, cluster); len(contexts) > 0 {
			return fmt.Sprintf("Name a context for it: --context %s", strings.Join(contexts, " or "))
		}
	}
	return fmt.Sprintf("This kubeconfig has no context for it: name another one with --kubeconfig, or make a context with: kubectl atoll lc use %s", cluster)
}

// contextName names the context that is used, for people.
func (o *options) contextName() string {
	if *o.flags.APIServer != "" {
		return "--server"
	}
	if *o.flags.Context != "" {
		return fmt.Sprintf("the context %q", *o.flags.Context)
	}
	raw, err := o.flags.ToRawKubeConfigLoader().RawConfig()
	if err != nil || raw.CurrentContext == "" {
		return "the kubeconfig"
	}
	return fmt.Sprintf("the context %q", raw.CurrentContext)
}
