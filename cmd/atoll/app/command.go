package app

import (
	"errors"
	"fmt"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/component-base/logs/json/register"
	"k8s.io/component-base/version"

	"github.com/atoll-dev/atoll/pkg/processors"
	"github.com/atoll-dev/atoll/pkg/skew"
)

// NewCommand returns the command line of the server.
func NewCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "atoll",
		Short:         "One Kubernetes API in front of many Kubernetes clusters",
		SilenceUsage:  true,
		SilenceErrors: false,
	}
	root.AddCommand(newStartCommand(), newKubeconfigCommand(), newVersionCommand())
	return root
}

func newStartCommand() *cobra.Command {
	o := NewOptions()
	logging := logsapi.NewLoggingConfiguration()
	cmd := &cobra.Command{
		Use:   "start",
		Short: "Run the server until it is interrupted",
		Long: `Run the server until it is interrupted.

Without --etcd-servers the server keeps its data in an etcd of its own inside
the data directory. The keys are made on first start. The kubeconfig of the
admin is written to DATA-DIR/admin.kubeconfig, with the context "root" and one
for each --logical-cluster, which is made if it does not exist.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := logsapi.ValidateAndApply(logging, nil); err != nil {
				return err
			}
			defer logs.FlushLogs()
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			processors.Spread()
			settle := compact()
			s, err := Start(ctx, *o)
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "atoll serves at %s\nkubeconfig: %s\n", s.URL, s.Kubeconfig)
			settle()
			go collect(ctx)
			return s.Wait()
		},
	}
	o.AddFlags(cmd.Flags())
	logsapi.AddFlags(logging, cmd.Flags())
	return cmd
}

func newKubeconfigCommand() *cobra.Command {
	var dataDir, output, syncer string
	cmd := &cobra.Command{
		Use:   "kubeconfig [NAME]",
		Short: "Print an admin's kubeconfig for a logical cluster, or a syncer's for a physical cluster",
		Example: `  atoll kubeconfig shop --data-dir D > shop.kubeconfig
  atoll kubeconfig --syncer east --data-dir D > east-syncer.kubeconfig`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if (len(args) == 1) == (syncer != "") {
				return errors.New("name one logical cluster, or one physical cluster with --syncer")
			}
			name := syncer
			if syncer == "" {
				name = args[0]
			}
			data, err := Kubeconfig(dataDir, name, syncer != "")
			if err != nil {
				return err
			}
			if output != "" {
				return writePrivate(output, data)
			}
			_, err = cmd.OutOrStdout().Write(data)
			return err
		},
	}
	cmd.Flags().StringVar(&dataDir, "data-dir", defaultDataDir, "The data directory of the server.")
	cmd.Flags().StringVarP(&output, "output", "o", "", "Write to this file instead of standard output.")
	cmd.Flags().StringVar(&syncer, "syncer", "", "Print the kubeconfig of the syncer of this physical cluster.")
	return cmd
}

func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		Run: func(cmd *cobra.Command, _ []string) {
			fmt.Fprintf(cmd.OutOrStdout(), "atoll %s (Kubernetes %s, revision %d with syncers)\n", skew.Version(), version.Get().GitVersion, skew.Current().Revision)
		},
	}
}

const defaultDataDir = "atoll-data"

func kubeconfigPath(dataDir string) string { return filepath.Join(dataDir, "admin.kubeconfig") }
