package builtin

import (
	"encoding/binary"
	"net"
	"net/netip"
	"slices"

	api "k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/registry/core/service/ipallocator"

	"github.com/atoll-dev/atoll/pkg/clusterips"
)

// family is how Services get cluster IPs of an IP family.
type family struct {
	api.IPFamily
	addresses netip.Prefix
	// mark is what acceptIPs gives; no Service can ask for it.
	mark string
}

// families are those that a logical cluster has; the first is that of Services that do not say.
var families = []family{
	{IPFamily: api.IPv4Protocol, addresses: clusterips.IPv4, mark: "0.0.0.0"},
	{IPFamily: api.IPv6Protocol, addresses: clusterips.IPv6, mark: "::"},
}

// allocators are what upstream has Services get their cluster IPs from.
func allocators() map[api.IPFamily]ipallocator.Interface {
	out := map[api.IPFamily]ipallocator.Interface{}
	for _, f := range families {
		out[f.IPFamily] = acceptIPs{f}
	}
	return out
}

// markedBy is the family whose mark an address is.
func markedBy(ip string) (f family, ok bool) {
	i := slices.IndexFunc(families, func(f family) bool { return f.mark == ip })
	if i < 0 {
		return f, false
	}
	return families[i], true
}

// at is an address of the range.
func (f family) at(offset uint32) netip.Addr {
	bytes := f.addresses.Addr().AsSlice()
	last := bytes[len(bytes)-4:]
	binary.BigEndian.PutUint32(last, binary.BigEndian.Uint32(last)+offset)
	address, _ := netip.AddrFromSlice(bytes)
	return address
}

// acceptIPs stands where upstream has its cluster-wide allocator, which sees
// neither the context nor the Service.
type acceptIPs struct{ family family }

func (a acceptIPs) Allocate(net.IP) error         { return nil }
func (a acceptIPs) AllocateNext() (net.IP, error) { return net.ParseIP(a.family.mark), nil }
func (a acceptIPs) Release(net.IP) error          { return nil }
func (a acceptIPs) ForEach(func(net.IP))          {}
func (a acceptIPs) CIDR() net.IPNet {
	first := a.family.addresses.Addr()
	return net.IPNet{IP: first.AsSlice(), Mask: net.CIDRMask(a.family.addresses.Bits(), first.BitLen())}
}
func (a acceptIPs) IPFamily() api.IPFamily        { return a.family.IPFamily }
func (a acceptIPs) Has(net.IP) bool               { return false }
func (a acceptIPs) Destroy()                      {}
func (a acceptIPs) EnableMetrics()                {}
func (a acceptIPs) DryRun() ipallocator.Interface { return a }
