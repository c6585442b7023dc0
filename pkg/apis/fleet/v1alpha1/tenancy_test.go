package v1alpha1

import (
	"net/netip"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A field that With does not know would be permitted by nobody, whatever a policy says: a new one
// is asked for here.
func TestTwoTenanciesPermitWhatEachDoes(t *testing.T) {
	t.Parallel()
	more := Tenancy{
		PodSecurity: PodSecurityPrivileged, Schedulers: []string{"a"}, PriorityClasses: map[string]string{"a": "b"}, NodeLabels: []string{"a"}, Taints: []string{"a"},
		HostPorts: []PortRange{{First: 1, Last: 2}}, NodePorts: []PortRange{{First: 3, Last: 4}}, Volumes: []string{"nfs"}, StaticVolumes: true,
		StorageClasses: []string{"a"}, ExternalIPs: []string{"a"}, LoadBalancerIPs: []string{"a"}, LoadBalancerClasses: []string{"a"},
		IngressClasses: []string{"a"}, Annotations: []string{"a"}, NamespaceLabels: []string{"a"}, RuntimeClasses: []string{"a"}, EndpointCIDRs: []string{"192.0.2.0/24"},
		StorageClassNames: map[string]string{"a": "b"}, IngressClassNames: map[string]string{"a": "b"}, Network: Network{Isolation: NetworkIsolationNone},
	}
	want := more
	want.Network, want.RuntimeClasses, want.EndpointCIDRs = Network{}, nil, nil
	want.StorageClassNames, want.IngressClassNames = nil, nil
	want.StorageClasses, want.IngressClasses = nil, nil // all of them are permitted, and remain so
	if diff := cmp.Diff(want, Tenancy{}.With(more)); diff != "" {
		t.Errorf("to what is permitted by default (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, want.With(Tenancy{})); diff != "" {
		t.Errorf("nothing (-want +got):\n%s", diff)
	}
	for i := range reflect.TypeFor[Tenancy]().NumField() {
		if reflect.ValueOf(more).Field(i).IsZero() {
			t.Errorf("%s is not in this test", reflect.TypeFor[Tenancy]().Field(i).Name)
		}
	}
}

func TestOfTwoTenanciesNeitherIsChanged(t *testing.T) {
	t.Parallel()
	mine := func() Tenancy {
		return Tenancy{PriorityClasses: map[string]string{"a": "b", "c": "d"}, StorageClasses: []string{"a"}, Taints: append(make([]string, 0, 8), "a")}
	}
	base := mine()
	got := base.With(Tenancy{PodSecurity: PodSecurityRestricted, PriorityClasses: map[string]string{"a": "e"}, StorageClasses: []string{"b"}, Taints: []string{"b"}})
	want := Tenancy{PriorityClasses: map[string]string{"a": "e", "c": "d"}, StorageClasses: []string{"a", "b"}, Taints: []string{"a", "b"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	base.With(Tenancy{Taints: []string{"c"}})
	if diff := cmp.Diff(mine(), base); diff != "" || got.Taints[1] != "b" {
		t.Errorf("the first was changed, or what came of it (-before +after):\n%s", diff)
	}
	if got := (Tenancy{}).With(Tenancy{PodSecurity: "none"}); got.PodSecurity != "" {
		t.Errorf("what is no level is %q", got.PodSecurity)
	}
}

func TestWhereServicesMayLeadThatSelectNoPods(t *testing.T) {
	t.Parallel()
	leads := Tenancy{EndpointCIDRs: []string{"10.0.0.0/8", "2001:db8::/32", "no range"}, Network: Network{PodCIDRs: []string{"10.244.0.0/16"}, NodeCIDRs: []string{"10.244.0.1/32"}}}.LeadsTo()
	for text, want := range map[string]bool{
		"10.1.2.3": true, "::ffff:10.1.2.3": true, "2001:db8::1": true,
		"10.244.3.4": false, "::ffff:10.244.3.4": false, "10.244.0.1": false, // of pods, and of a node among them
		"192.0.2.1": false, "2001:db9::1": false,
	} {
		if got := leads(netip.MustParseAddr(text)); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
	if (Tenancy{}).LeadsTo()(netip.MustParseAddr("192.0.2.1")) {
		t.Error("by default they lead somewhere")
	}
}

func TestNamesOfClassesAreMapped(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		names                               map[string]string
		name, priority, storage, andIngress string
	}{
		{nil, "fast", "", "fast", "fast"},
		{map[string]string{"fast": "gp3"}, "fast", "gp3", "gp3", "gp3"},
		{map[string]string{"fast": "gp3"}, "slow", "", "slow", "slow"},
		{map[string]string{"fast": "gp3", All: "standard"}, "slow", "standard", "standard", "standard"},
		{map[string]string{"fast": All, All: "standard"}, "fast", "fast", "fast", "fast"},
		{map[string]string{All: All}, "fast", "fast", "fast", "fast"},
		{map[string]string{"fast": ""}, "fast", "", "", ""},
		{map[string]string{All: "standard"}, "", "", "", ""}, // no name is not one of all names
	} {
		tenancy := Tenancy{PriorityClasses: c.names, StorageClassNames: c.names, IngressClassNames: c.names}
		got := [3]string{tenancy.PriorityClass(c.name), tenancy.StorageClass(c.name), tenancy.IngressClass(c.name)}
		if want := [3]string{c.priority, c.storage, c.andIngress}; got != want {
			t.Errorf("%v, %q: %q, want %q", c.names, c.name, got, want)
		}
	}
}
