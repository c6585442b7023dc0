// Package attack runs the attacks of test/attack against the server in process.
package attack

import (
	"testing"

	"github.com/atoll-dev/atoll/cmd/atoll/app"
	"github.com/atoll-dev/atoll/test/attack"
	"github.com/atoll-dev/atoll/test/framework/server"
)

func TestAttacksHold(t *testing.T) {
	s := server.StartWith(t, func(o *app.Options) { o.Egress.Deny = []string{attack.DeniedNetwork} })
	w := &attack.World{Config: s.Config, Dir: s.Dir}
	if err := w.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	for _, a := range attack.All() {
		if a.Real {
			continue // no physical cluster runs here
		}
		t.Run(a.Name, func(t *testing.T) {
			if err := a.Try(t.Context(), w); err != nil {
				t.Error(err)
			}
		})
	}
}
