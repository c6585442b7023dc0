package native

import (
	"maps"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	fleet "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/boundary"
)

// maxPermits bounds each list of a Tenancy: every object is compared with them.
const maxPermits = 256

func validateTenancy(t fleet.Tenancy, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	level := t.Level()
	if !slices.Contains(fleet.PodSecurityLevels(), level) {
		errs = append(errs, field.NotSupported(path.Child("podSecurity"), level, fleet.PodSecurityLevels()))
	}
	if len(t.HostPorts) > 0 && level != fleet.PodSecurityPrivileged {
		errs = append(errs, field.Forbidden(path.Child("hostPorts"), "Pod Security refuses ports of nodes unless podSecurity is privileged"))
	}
	for name, ranges := range map[string][]fleet.PortRange{"hostPorts": t.HostPorts, "nodePorts": t.NodePorts} {
		errs = append(errs, validatePorts(ranges, path.Child(name))...)
	}
	for name, list := range map[string]struct {
		values []string
		valid  func(string) []string
	}{
		"schedulers":          {t.Schedulers, validation.IsDNS1123Subdomain},
		"nodeLabels":          {t.NodeLabels, isKeyOrPrefix},
		"taints":              {t.Taints, isKeyOrPrefix},
		"volumes":             {t.Volumes, isVolumeType},
		"externalIPs":         {t.ExternalIPs, isAddress},
		"endpointCIDRs":       {t.EndpointCIDRs, isPodRange},
		"loadBalancerIPs":     {t.LoadBalancerIPs, isAddress},
		"loadBalancerClasses": {t.LoadBalancerClasses, validation.IsQualifiedName},
		"storageClasses":      {t.StorageClasses, validation.IsDNS1123Subdomain},
		"ingressClasses":      {t.IngressClasses, validation.IsDNS1123Subdomain},
		"runtimeClasses":      {t.RuntimeClasses, isClassOrAll},
		"annotations":         {t.Annotations, isKeyOrPrefix},
		"namespaceLabels":     {t.NamespaceLabels, isKeyOrPrefix},
		"network.podCIDRs":    {t.Network.PodCIDRs, isPodRange},
		"network.nodeCIDRs":   {t.Network.NodeCIDRs, isPodRange},
	} {
		at := path
		for part := range strings.SplitSeq(name, ".") {
			at = at.Child(part)
		}
		if len(list.values) > maxPermits {
			errs = append(errs, field.TooMany(at, len(list.values), maxPermits))
			continue
		}
		for i, value := range list.values {
			if problems := list.valid(value); len(problems) > 0 {
				errs = append(errs, field.Invalid(at.Index(i), value, problems[0]))
			}
		}
	}
	if i, all := t.Network.Isolation, []fleet.NetworkIsolation{fleet.NetworkIsolationTenants, fleet.NetworkIsolationNone}; i != "" && !slices.Contains(all, i) {
		errs = append(errs, field.NotSupported(path.Child("network", "isolation"), i, all))
	}
	errs = append(errs, validateClasses(t.PriorityClasses, path.Child("priorityClasses"), true)...)
	errs = append(errs, validateClasses(t.StorageClassNames, path.Child("storageClassNames"), false)...)
	errs = append(errs, validateClasses(t.IngressClassNames, path.Child("ingressClassNames"), false)...)
	slices.SortFunc(errs, func(a, b *field.Error) int { return strings.Compare(a.Field, b.Field) })
	return errs
}

func validatePorts(ranges []fleet.PortRange, path *field.Path) field.ErrorList {
	if len(ranges) > maxPermits {
		return field.ErrorList{field.TooMany(path, len(ranges), maxPermits)}
	}
	var errs field.ErrorList
	for i, r := range ranges {
		switch at := path.Index(i); {
		case r.First < 1 || r.First > 65535:
			errs = append(errs, field.Invalid(at.Child("first"), r.First, "must be a port, from 1 to 65535"))
		case r.Last < r.First || r.Last > 65535:
			errs = append(errs, field.Invalid(at.Child("last"), r.Last, "must be a port, from first to 65535"))
		}
	}
	return errs
}

// validateClasses checks a map of classes; withNone says that a class may be mapped to none.
func validateClasses(classes map[string]string, path *field.Path, withNone bool) field.ErrorList {
	if len(classes) > maxPermits {
		return field.ErrorList{field.TooMany(path, len(classes), maxPermits)}
	}
	var errs field.ErrorList
	for _, name := range slices.Sorted(maps.Keys(classes)) {
		if problems := isClassOrAll(name); len(problems) > 0 {
			errs = append(errs, field.Invalid(path, name, problems[0]))
		}
		if mapped := classes[name]; mapped != "" || !withNone { // empty: none, whatever "*" says
			if problems := isClassOrAll(mapped); len(problems) > 0 {
				errs = append(errs, field.Invalid(path.Key(name), mapped, problems[0]))
			}
		}
	}
	return errs
}

func isClassOrAll(value string) []string {
	if value == fleet.All {
		return nil
	}
	return validation.IsDNS1123Subdomain(value)
}

// isKeyOrPrefix: a prefix becomes a key if something follows it.
func isKeyOrPrefix(value string) []string {
	if value == fleet.All {
		return nil
	}
	if value != "" && strings.ContainsAny(value[len(value)-1:], "/.-") {
		value += "x"
		if !strings.Contains(value, "/") {
			value += "/x" // up to somewhere in the domain
		}
	}
	return validation.IsQualifiedName(value)
}

func isVolumeType(value string) []string {
	if all := boundary.VolumeTypes(); !slices.Contains(all, value) {
		return []string{"must be one of " + strings.Join(all, ", ")}
	}
	return nil
}

// isPodRange: a range with all addresses would leave nobody outside.
func isPodRange(value string) []string {
	r, err := netip.ParsePrefix(value)
	switch {
	case err != nil:
		return []string{"must be a range of addresses such as 10.244.0.0/16"}
	case r != r.Masked():
		return []string{"must be written as " + r.Masked().String()}
	case r.Bits() == 0 || r.Addr().Is4In6():
		return []string{"must be a part of the IPv4 or IPv6 addresses"}
	}
	return nil
}

func isAddress(value string) []string {
	if _, err := netip.ParseAddr(value); err != nil {
		return []string{"must be an IP address"}
	}
	return nil
}
