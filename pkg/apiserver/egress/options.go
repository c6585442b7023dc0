package egress

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/spf13/pflag"
)

// Options are what the admin says about addresses.
type Options struct {
	// Deny and Allow are networks (10.0.0.0/8) or addresses.
	Deny, Allow []string
}

const allowFlag = "--tenant-egress-allow"

// AddFlags binds the options to flags.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.StringSliceVar(&o.Deny, "tenant-egress-deny", o.Deny, "Networks that tenants must not have the server call by webhooks and aggregated APIs, beside this machine, link-local, multicast and metadata addresses. Private networks are allowed unless they are named here.")
	fs.StringSliceVar(&o.Allow, "tenant-egress-allow", o.Allow, "Networks that tenants may have the server call although they are denied otherwise. The server's own address and its etcd stay denied.")
}

// Validate says what is wrong and how to put it right.
func (o *Options) Validate() error {
	_, err := o.Policy()
	return err
}

// Policy reads the options.
func (o *Options) Policy() (Policy, error) {
	deny, denyErr := parse("--tenant-egress-deny", o.Deny)
	allow, allowErr := parse(allowFlag, o.Allow)
	return Policy{Deny: deny, Allow: allow}, errors.Join(denyErr, allowErr)
}

func parse(flag string, texts []string) ([]netip.Prefix, error) {
	var out []netip.Prefix
	var errs []error
	for _, text := range texts {
		network, err := netip.ParsePrefix(text)
		if addr, addrErr := netip.ParseAddr(text); addrErr == nil {
			network, err = netip.PrefixFrom(addr, addr.BitLen()), nil
		}
		if err != nil || network.Addr().Is4In6() || network.Addr().Zone() != "" {
			errs = append(errs, fmt.Errorf("%s %q: give a network, such as 10.0.0.0/8, or an address", flag, text))
			continue
		}
		out = append(out, network)
	}
	return out, errors.Join(errs...)
}
