package cli

import (
	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/kubectl/pkg/util/completion"
	"k8s.io/kubectl/pkg/util/templates"
	"k8s.io/kubectl/pkg/util/term"

	"github.com/atoll-dev/atoll/pkg/workload"
)

// fieldManager is who writes in the name of the user.
const fieldManager = "kubectl-atoll"

// options are what all commands share.
type options struct {
	genericiooptions.IOStreams
	flags   *genericclioptions.ConfigFlags
	factory cmdutil.Factory
	// kinds are those that a syncer handles on a physical cluster.
	kinds workload.Catalog
}

// NewCommand is the command line of the plugin.
func NewCommand(kinds workload.Catalog, streams genericiooptions.IOStreams) *cobra.Command {
	flags := genericclioptions.NewConfigFlags(true).WithDiscoveryBurst(300).WithDiscoveryQPS(50)
	flags.WrapConfigFn = func(c *rest.Config) *rest.Config { c.QPS, c.Burst = 200, 400; return c }
	o := &options{IOStreams: streams, flags: flags, factory: cmdutil.NewFactory(flags), kinds: kinds}
	root := &cobra.Command{
		Use:   "atoll",
		Short: "See and direct where logical clusters run",
		Long: templates.LongDesc(`See and direct where logical clusters run.

			Commands about physical and logical clusters need a context that points to the logical cluster "root";
			those about namespaces and objects need one that points to their logical cluster. Everything they do is
			objects of the API, which kubectl and GitOps can write, too.`),
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl atoll"},
		SilenceUsage:  true,
		SilenceErrors: true,
		Run:           func(cmd *cobra.Command, _ []string) { _ = cmd.Help() },
	}
	flags.AddFlags(root.PersistentFlags())
	completion.SetFactoryForCompletion(o.factory)
	for name, complete := range map[string]cobra.CompletionFunc{
		"namespace": completion.ResourceNameCompletionFunc(o.factory, "namespace"), "context": completion.ContextCompletionFunc,
		"cluster": completion.ClusterCompletionFunc, "user": completion.UserCompletionFunc,
	} {
		cmdutil.CheckErr(root.RegisterFlagCompletionFunc(name, complete))
	}
	rest.SetDefaultWarningHandler(rest.NewWarningWriter(streams.ErrOut, rest.WarningWriterOptions{
		Deduplicate: true, Color: term.AllowsColorOutput(streams.ErrOut),
	}))
	root.AddCommand(
		newClustersCommand(o), newRegisterCommand(o), newApproveCommand(o), newUnregisterCommand(o),
		newCordonCommand(o, true), newCordonCommand(o, false), newTaintCommand(o), newLogicalClustersCommand(o),
		newMoveCommand(o), newDrainCommand(o), newWhereCommand(o), newExplainCommand(o), newWhatIfCommand(o), newPolicyCommand(o),
		newRolloutCommand(o), newManifestsCommand(o),
	)
	return root
}
