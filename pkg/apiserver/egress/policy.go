package egress

import (
	"encoding/binary"
	"net/netip"
	"slices"
)

// closed is what nobody has business with: the machine itself, its neighbours on
// the link, everybody at once, and where clouds have their metadata services.
var closed = prefixes(
	"0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/4", "255.255.255.255/32",
	"::/128", "::1/128", "fe80::/10", "fec0::/10", "ff00::/8",
	"100.100.100.200/32", "168.63.129.16/32", "fd00:ec2::254/128",
)

// embedding are the networks whose addresses carry an IPv4 address, and at which
// byte: translators and tunnels lead there.
var embedding = map[netip.Prefix]int{
	netip.MustParsePrefix("::/96"):          12,
	netip.MustParsePrefix("64:ff9b::/96"):   12,
	netip.MustParsePrefix("64:ff9b:1::/48"): 12,
	netip.MustParsePrefix("2002::/16"):      2,
}

// Policy says which addresses may be called.
//
//	the address is         in Allow   may be called
//	one of Own             any        no
//	in Deny or closed      yes        yes
//	in Deny or closed      no         no
//	of this machine        yes        yes
//	of this machine        no         no
//	any other              any        yes
type Policy struct {
	// Deny and Allow are the admin's; Allow excepts from Deny and from what is
	// closed anyway.
	Deny, Allow []netip.Prefix
}

// Place is what the policy needs to know of where the server runs.
type Place struct {
	// Own are the server's own ends: where it listens and where its etcd does.
	Own []netip.AddrPort
	// Machine are the addresses of this machine. They reach what listens on
	// loopback and everywhere else.
	Machine []netip.Addr
}

// Allows reports whether a tenant may have the server call to.
func (p Policy) Allows(to netip.AddrPort, place Place) bool {
	addr := plain(to.Addr())
	machine := addr.IsLoopback() || addr.IsUnspecified() || slices.Contains(place.Machine, addr)
	for _, own := range place.Own {
		if own.Port() != to.Port() {
			continue
		}
		at := plain(own.Addr())
		if at == addr || machine && (at.IsUnspecified() || at.IsLoopback() && addr.IsUnspecified()) {
			return false
		}
	}
	if within(p.Allow, addr) {
		return true
	}
	return !machine && !within(p.Deny, addr) && !within(closed, addr)
}

// plain is the address that a connection to addr ends at, without a zone.
func plain(addr netip.Addr) netip.Addr {
	addr = addr.Unmap().WithZone("")
	if !addr.Is6() || addr.IsLoopback() || addr.IsUnspecified() {
		return addr
	}
	for network, at := range embedding {
		if network.Contains(addr) {
			bytes := addr.As16()
			var v4 [4]byte
			binary.BigEndian.PutUint32(v4[:], binary.BigEndian.Uint32(bytes[at:]))
			return netip.AddrFrom4(v4)
		}
	}
	return addr
}

func within(networks []netip.Prefix, addr netip.Addr) bool {
	return slices.ContainsFunc(networks, func(n netip.Prefix) bool { return n.Contains(addr) })
}

func prefixes(texts ...string) []netip.Prefix {
	out := make([]netip.Prefix, 0, len(texts))
	for _, text := range texts {
		out = append(out, netip.MustParsePrefix(text))
	}
	return out
}
