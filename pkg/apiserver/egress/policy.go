package egress

import (
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

// embedding are the networks whose addresses carry an IPv4 address, and the bytes that
// are it: translators and tunnels lead there. In the network for translators of one's
// own (RFC 8215) an address may be that of a prefix of any length of RFC 6052, of which
// nobody but the translator knows.
var embedding = map[netip.Prefix][][4]int{
	netip.MustParsePrefix("::/96"):          {{12, 13, 14, 15}},
	netip.MustParsePrefix("64:ff9b::/96"):   {{12, 13, 14, 15}},
	netip.MustParsePrefix("64:ff9b:1::/48"): {{6, 7, 9, 10}, {7, 9, 10, 11}, {9, 10, 11, 12}, {12, 13, 14, 15}},
	netip.MustParsePrefix("2002::/16"):      {{2, 3, 4, 5}},
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

// Allows reports whether a tenant may have the server call to: wherever a connection
// there may end.
func (p Policy) Allows(to netip.AddrPort, place Place) bool {
	return !slices.ContainsFunc(ends(to.Addr()), func(end netip.Addr) bool {
		return !p.allows(netip.AddrPortFrom(end, to.Port()), place)
	})
}

func (p Policy) allows(to netip.AddrPort, place Place) bool {
	addr := to.Addr()
	machine := addr.IsLoopback() || addr.IsUnspecified() || slices.Contains(place.Machine, addr)
	for _, own := range place.Own {
		if own.Port() != to.Port() {
			continue
		}
		at := own.Addr().Unmap().WithZone("")
		if at == addr || machine && (at.IsUnspecified() || at.IsLoopback() && addr.IsUnspecified()) {
			return false
		}
	}
	if within(p.Allow, addr) {
		return true
	}
	return !machine && !within(p.Deny, addr) && !within(closed, addr)
}

// ends are the addresses, one at least and without zones, at which a connection to addr
// may end.
func ends(addr netip.Addr) []netip.Addr {
	addr = addr.Unmap().WithZone("")
	if !addr.Is6() || addr.IsLoopback() || addr.IsUnspecified() {
		return []netip.Addr{addr}
	}
	for network, readings := range embedding {
		if !network.Contains(addr) {
			continue
		}
		bytes := addr.As16()
		var out []netip.Addr
		for _, at := range readings {
			v4 := [4]byte{bytes[at[0]], bytes[at[1]], bytes[at[2]], bytes[at[3]]}
			if v4[0] == 0 && len(readings) > 1 {
				continue // nowhere: the prefix is not of this length
			}
			out = append(out, netip.AddrFrom4(v4))
		}
		if len(out) == 0 {
			out = append(out, netip.IPv4Unspecified())
		}
		return out
	}
	return []netip.Addr{addr}
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
