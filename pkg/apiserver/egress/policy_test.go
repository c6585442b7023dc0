package egress

import (
	"net/netip"
	"testing"
)

func TestThePolicyKeepsTenantsFromTheMachineAndItsNeighbours(t *testing.T) {
	t.Parallel()
	place := Place{
		Own:     []netip.AddrPort{netip.MustParseAddrPort("0.0.0.0:6443"), netip.MustParseAddrPort("10.9.9.9:2379"), netip.MustParseAddrPort("127.0.0.1:2380")},
		Machine: []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("192.168.7.7"), netip.MustParseAddr("2001:db8::7")},
	}
	admin := Policy{Deny: prefixes("10.0.0.0/8", "2001:db8:1::/48"), Allow: prefixes("10.1.0.0/16", "127.0.0.0/8", "192.168.7.7/32", "10.9.9.9/32")}
	for _, c := range []struct {
		address        string
		plain, byAdmin bool
	}{
		{"93.184.216.34:443", true, true},
		{"[2606:2800:220:1::1]:443", true, true},
		{"10.0.0.1:443", true, false},
		{"10.1.0.1:443", true, true},
		{"[2001:db8:1::1]:443", true, false},
		{"[::ffff:10.0.0.1]:443", true, false},
		{"172.16.0.1:8443", true, true},
		{"127.0.0.1:443", false, true},
		{"127.9.9.9:443", false, true},
		{"[::1]:443", false, false},
		{"[::ffff:127.0.0.1]:443", false, true},
		{"[::127.0.0.1]:443", false, true},
		{"[64:ff9b::169.254.169.254]:80", false, false},
		{"[2002:a9fe:a9fe::1]:80", false, false},
		// A translator of one's own: the prefix may have any length.
		{"[64:ff9b:1::169.254.169.254]:80", false, false},
		{"[64:ff9b:1:a9fe:a9:fe00::]:80", false, false},      // /48
		{"[64:ff9b:1:1a9:fe:a9fe::]:80", false, false},       // /56
		{"[64:ff9b:1:0101:a9:fea9:fe00::]:80", false, false}, // /64
		{"[64:ff9b:1::93.184.216.34]:443", true, true},
		{"[64:ff9b:1:5db8:d8:2200::]:443", true, true},
		{"[64:ff9b:1::10.2.0.1]:443", true, false},
		{"[64:ff9b:1::]:443", false, false},
		{"0.0.0.0:443", false, false},
		{"0.1.2.3:443", false, false},
		{"[::]:443", false, false},
		{"169.254.169.254:80", false, false},
		{"[fe80::1%eth0]:443", false, false},
		{"[fd00:ec2::254]:80", false, false},
		{"[fd12::1]:443", true, true},
		{"224.0.0.1:443", false, false},
		{"[ff02::1]:443", false, false},
		{"255.255.255.255:443", false, false},
		{"192.168.7.7:443", false, true},
		{"[2001:db8::7]:443", false, false},
		// Its own ends stay closed, whatever the admin allows.
		{"127.0.0.1:6443", false, false},
		{"192.168.7.7:6443", false, false},
		{"[::ffff:192.168.7.7]:6443", false, false},
		{"10.1.0.1:6443", true, true},
		{"10.9.9.9:2379", false, false},
		{"10.9.9.9:443", true, true},
		{"127.0.0.1:2380", false, false},
		{"0.0.0.0:2380", false, false},
	} {
		to := netip.MustParseAddrPort(c.address)
		if got := (Policy{}).Allows(to, place); got != c.plain {
			t.Errorf("%s: allowed %t without the admin, want %t", c.address, got, c.plain)
		}
		if got := admin.Allows(to, place); got != c.byAdmin {
			t.Errorf("%s: allowed %t with the admin's networks, want %t", c.address, got, c.byAdmin)
		}
	}
}

func TestNetworksAreReadOrRefusedWithTheFlag(t *testing.T) {
	t.Parallel()
	good := Options{Deny: []string{"10.0.0.0/8", "fd00::1"}, Allow: []string{"127.0.0.1"}}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for _, text := range []string{"10.0.0.0/33", "localhost", "", "::ffff:10.0.0.0/104"} {
		bad := Options{Allow: []string{text}}
		if err := bad.Validate(); err == nil {
			t.Errorf("%q is taken for a network", text)
		}
	}
}
