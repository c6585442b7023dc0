package builtin

import (
	"net/netip"
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	api "k8s.io/kubernetes/pkg/apis/core"
)

func TestAServiceOfTwoFamiliesGetsAFreeAddressOfEach(t *testing.T) {
	t.Parallel()
	both := func(ips ...string) *api.Service {
		s := service("front", ips[0])
		s.Spec.ClusterIPs = ips
		return s
	}
	v4, v6 := families[0], families[1]
	for _, c := range []struct {
		name     string
		new, old *api.Service
		ranges   []family
	}{
		{"IPv4 first", both(v4.mark, v6.mark), &api.Service{}, []family{v4, v6}},
		{"IPv6 first", both(v6.mark, v4.mark), &api.Service{}, []family{v6, v4}},
		{"IPv6 alone", both(v6.mark), &api.Service{}, []family{v6}},
		{"the second is added", both("10.96.0.9", v6.mark), both("10.96.0.9"), []family{v4, v6}},
		{"one is chosen", both(v4.mark, "fd00:10:96::9"), &api.Service{}, []family{v4, v6}},
	} {
		before, had := slices.Clone(c.new.Spec.ClusterIPs), slices.Clone(c.old.Spec.ClusterIPs)
		free := newAddresses(shown{})
		if err := free.allocate(inCluster(t, "a"), c.new, c.old, false); err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		got := c.new.Spec.ClusterIPs
		if len(got) != len(c.ranges) || got[0] != c.new.Spec.ClusterIP || !slices.Equal(c.old.Spec.ClusterIPs, had) {
			t.Errorf("%s: it gets %v, and %s; the old one has %v", c.name, got, c.new.Spec.ClusterIP, c.old.Spec.ClusterIPs)
			continue
		}
		for i, f := range c.ranges {
			if ip, err := netip.ParseAddr(got[i]); err != nil || !f.addresses.Contains(ip) || ip == f.addresses.Addr() {
				t.Errorf("%s: it gets %v, want the one at %d of %s", c.name, got, i, f.addresses)
			}
			if _, marked := markedBy(before[i]); !marked && before[i] != got[i] {
				t.Errorf("%s: what it had is changed to %s", c.name, got[i])
			}
		}
		taken := newAddresses(shown{"a": {{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "other"}, Spec: api.ServiceSpec{ClusterIP: got[0], ClusterIPs: got}}}})
		for i := range before {
			if _, marked := markedBy(before[i]); marked {
				again := both(before[i])
				if err := taken.allocate(inCluster(t, "a"), again, &api.Service{}, false); err != nil || again.Spec.ClusterIP == got[i] {
					t.Errorf("%s: another one gets %s, too: %v", c.name, again.Spec.ClusterIP, err)
				}
			}
		}
	}
	for _, ips := range [][]string{{"10.96.0.9", "fd00:10:96::9"}, {"fd00:10:96:0:0:0:0:9"}} {
		taken := newAddresses(shown{"a": {*service("other", "fd00:10:96::9")}})
		if err := taken.allocate(inCluster(t, "a"), both(ips...), &api.Service{}, false); !apierrors.IsInvalid(err) {
			t.Errorf("%v, of which another one has one: %v, want Invalid", ips, err)
		}
	}
}
