package cluster

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
)

// DefaultServices are the addresses of Services if nobody says others.
const DefaultServices = "10.96.0.0/16"

// firstServices are the addresses that the Service of the API server may have.
func firstServices(services string) ([]net.IP, error) {
	var out []net.IP
	for text := range strings.SplitSeq(services, ",") {
		r, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("--services %s: ranges of addresses are needed, one for each family, such as %s: %w", services, DefaultServices, err)
		}
		out = append(out, r.Masked().Addr().Next().AsSlice())
	}
	return out, nil
}
