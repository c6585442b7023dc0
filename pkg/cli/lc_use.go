package cli

import (
	"context"
	"fmt"

	"github.com/kcp-dev/logicalcluster/v3"
	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/kubectl/pkg/util/completion"
	"k8s.io/kubectl/pkg/util/templates"

	"github.com/atoll-dev/atoll/pkg/cli/edit"
	"github.com/atoll-dev/atoll/pkg/scope"
)

func newLogicalClusterUseCommand(o *options) *cobra.Command {
	var as string
	cmd := &cobra.Command{
		Use:   "use NAME",
		Short: "Point the kubeconfig to a logical cluster",
		Long: templates.LongDesc(`Point the kubeconfig to a logical cluster.

			It writes a context with the server and the user of the current context, or of --context, and the URL of the
			logical cluster, and makes it the current one. It works from any logical cluster to any other, root included.`),
		Example: templates.Examples(`
			kubectl atoll lc use shop
			kubectl atoll lc use root

			# Under a name of one's own
			kubectl atoll lc use shop --as-context shop-test`),
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completion.ResourceNameCompletionFunc(o.factory, logicalClusters),
	}
	cmd.Flags().StringVar(&as, "as-context", "", "The name of the context; that of the logical cluster by default.")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		name := args[0]
		if problem := scope.ValidateName(name); problem != "" {
			return fmt.Errorf("name %q: %s", name, problem)
		}
		if as == "" {
			as = name
		}
		if err := o.reachable(cmd.Context(), logicalcluster.Name(name)); err != nil {
			return err
		}
		loader := o.flags.ToRawKubeConfigLoader()
		config, err := loader.RawConfig()
		if err != nil {
			return err
		}
		from := config.CurrentContext
		if *o.flags.Context != "" {
			from = *o.flags.Context
		}
		if err := edit.Use(&config, from, logicalcluster.Name(name), as); err != nil {
			return err
		}
		if err := clientcmd.ModifyConfig(loader.ConfigAccess(), config, true); err != nil {
			return fmt.Errorf("writing the kubeconfig: %w", err)
		}
		fmt.Fprintf(o.Out, "Switched to context %q: logical cluster %q at %s\n", as, name, config.Clusters[config.Contexts[as].Cluster].Server)
		return nil
	}
	return cmd
}

// reachable asks the logical cluster something that its users may ask.
func (o *options) reachable(ctx context.Context, name logicalcluster.Name) error {
	config, err := o.flags.ToRESTConfig()
	if err != nil {
		return err
	}
	server, err := edit.Server(config.Host, name)
	if err != nil {
		return fmt.Errorf("the server of %s: %w", o.contextName(), err)
	}
	config.Host, config.WarningHandler = server, rest.NoWarnings{}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	err = client.Discovery().RESTClient().Get().AbsPath("/api").Do(ctx).Error()
	switch {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("there is no logical cluster %q; list them with: kubectl atoll lc list, create it with: kubectl atoll lc create %s", name, name)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("the user of %s may not use a logical cluster %q, if there is one: an admin makes somebody its owner in spec.owners of the LogicalCluster", o.contextName(), name)
	}
	return err
}
