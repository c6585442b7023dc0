package names

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

const reverse4, reverse6 = "in-addr.arpa.", "ip6.arpa."

// carrierGrade is shared by those behind one carrier (RFC 6598); some physical clusters
// take addresses of pods from it.
var carrierGrade = netip.MustParsePrefix("100.64.0.0/10")

// reversed reads the address out of a name under in-addr.arpa or ip6.arpa. zone is the
// one of the two that the name is under, empty if it is under none; the address is not
// valid if the name is not that of one.
func reversed(name string, labels []string) (a netip.Addr, zone string) {
	switch {
	case name == reverse4 || strings.HasSuffix(name, "."+reverse4):
		digits := slices.Clone(labels[:len(labels)-2])
		slices.Reverse(digits)
		a, _ = netip.ParseAddr(strings.Join(digits, "."))
		return a, reverse4
	case name == reverse6 || strings.HasSuffix(name, "."+reverse6):
		nibbles := labels[:len(labels)-2]
		if len(nibbles) != 32 {
			return a, reverse6
		}
		var b [16]byte
		for i, nibble := range nibbles {
			v, err := strconv.ParseUint(nibble, 16, 4)
			if err != nil || len(nibble) != 1 {
				return a, reverse6
			}
			at := 31 - i
			b[at/2] |= byte(v) << (4 * (1 - at%2))
		}
		return netip.AddrFrom16(b), reverse6
	}
	return a, ""
}

// public says that an address may be asked of others: those of private networks are of the
// physical cluster, its nodes and its other tenants.
func public(a netip.Addr) bool {
	a = a.Unmap()
	return a.IsValid() && a.IsGlobalUnicast() && !a.IsPrivate() && !carrierGrade.Contains(a)
}
