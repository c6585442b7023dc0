package cli

import (
	"github.com/spf13/cobra"
	"k8s.io/kubectl/pkg/util/templates"
)

const logicalClusters = "logicalclusters.tenancy.atoll.dev"

func newLogicalClustersCommand(o *options) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "lc",
		Aliases: []string{"logicalclusters"},
		Short:   "Create, delete, list and use logical clusters",
		Example: templates.Examples(`
			kubectl atoll lc create shop --owner User:alice
			kubectl atoll lc use shop`),
		Run: func(cmd *cobra.Command, _ []string) { _ = cmd.Help() },
	}
	cmd.AddCommand(newLogicalClusterCreateCommand(o), newLogicalClusterDeleteCommand(o), newLogicalClusterListCommand(o), newLogicalClusterUseCommand(o))
	return cmd
}
