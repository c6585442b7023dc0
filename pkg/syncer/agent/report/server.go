package report

import (
	"cmp"
	"net/url"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/syncer"
)

// serverFor is how pods reach the control plane; what is no URL leads nowhere.
func serverFor(access *fleetv1alpha1.PodsAccess) syncer.Server {
	if access == nil {
		return syncer.Server{}
	}
	u, err := url.Parse(access.Server)
	if err != nil {
		return syncer.Server{}
	}
	return syncer.Server{Host: u.Hostname(), Port: cmp.Or(u.Port(), "443"), CA: string(access.CABundle)}
}
