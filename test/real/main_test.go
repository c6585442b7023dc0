//go:build linux

package real

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/atoll-dev/atoll/test/real/lab"
)

// theLab is what all tests share: the physical clusters east, which the server connects to,
// and west, whose syncer connects to the server.
var theLab *lab.Lab

func TestMain(m *testing.M) {
	os.Exit(lab.Main(m, func(dir string) int {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		var err error
		if theLab, err = lab.Start(ctx, dir, lab.Config{Name: "east"}, lab.Config{Name: "west", Pull: true}); err != nil {
			fmt.Fprintf(os.Stderr, "starting the lab: %v\n%s", err, theLab.Logs())
			return 1
		}
		if err := beginRenewal(ctx); err != nil {
			fmt.Fprintf(os.Stderr, "preparing a token that is renewed: %v\n", err)
			return 1
		}
		return m.Run()
	}))
}
