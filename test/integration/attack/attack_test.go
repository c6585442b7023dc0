// Package attack runs the attacks of test/attack against the server in process.
package attack

import (
	"testing"

	"github.com/atoll-dev/atoll/cmd/atoll/app"
	"github.com/atoll-dev/atoll/test/attack"
	"github.com/atoll-dev/atoll/test/framework/ports"
	"github.com/atoll-dev/atoll/test/framework/server"
)

func TestAttacksHold(t *testing.T) {
	w := &attack.World{}
	for address, host := range map[*string]string{&w.Admission: "127.0.0.1", &w.Advertised: "127.0.0.9"} {
		var err error
		if *address, err = ports.Address(host); err != nil {
			t.Fatal(err)
		}
	}
	s := server.StartWith(t, func(o *app.Options) {
		o.Egress.Deny, o.AdmissionAddress, o.AdvertiseAddress = []string{attack.DeniedNetwork}, w.Admission, w.Advertised
	})
	w.Config, w.Dir = s.Config, s.Dir
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
