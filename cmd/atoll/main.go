// Command atoll is the server: logical clusters, placement and the syncers of
// physical clusters that the server reaches itself.
package main

import (
	"os"
	_ "time/tzdata" // CronJobs and rules in CEL name time zones, of which an image may have none

	"k8s.io/component-base/cli"

	"github.com/atoll-dev/atoll/cmd/atoll/app"
)

func main() { os.Exit(cli.Run(app.NewCommand())) }
