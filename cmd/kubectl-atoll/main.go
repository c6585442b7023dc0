// Command kubectl-atoll is a plugin of kubectl: kubectl atoll. Called as
// kubectl_complete-atoll, it completes the words of that command for kubectl.
package main

import (
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // the ways to log in that kubectl has
	"k8s.io/component-base/cli"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"

	atoll "github.com/atoll-dev/atoll/pkg/cli"
	"github.com/atoll-dev/atoll/pkg/workload"
)

func main() {
	if filepath.Base(os.Args[0]) == "kubectl_complete-atoll" {
		os.Args = append([]string{"kubectl-atoll", cobra.ShellCompRequestCmd}, os.Args[1:]...)
	}
	command := atoll.NewCommand(workload.Builtin(), genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr})
	if err := cli.RunNoErrOutput(command); err != nil {
		cmdutil.CheckErr(err)
	}
}
