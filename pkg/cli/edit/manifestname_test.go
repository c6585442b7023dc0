package edit

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
)

func TestAManifestIsNamedAfterItsObject(t *testing.T) {
	long := strings.Repeat("a", 253)
	for _, c := range []struct {
		what string
		id   identity
		want string
	}{
		{"in a namespace", identity{"apps", "Deployment", "monitoring", "web"}, "deployment.apps--monitoring--web"},
		{"in none", identity{"", "Namespace", "", "monitoring"}, "namespace--monitoring"},
		{"a name with dots", identity{"apiextensions.k8s.io", "CustomResourceDefinition", "", "gadgets.example.com"}, "customresourcedefinition.apiextensions.k8s.io--gadgets.example.com"},
		{"a group of others", identity{"networking.istio.io", "Gateway", "web", "in"}, "gateway.networking.istio.io--web--in"},
		{"the same kind in another group", identity{"gateway.networking.k8s.io", "Gateway", "web", "in"}, "gateway.gateway.networking.k8s.io--web--in"},
		{"a name that is cleaned", identity{"rbac.authorization.k8s.io", "ClusterRole", "", "system:web"}, "clusterrole.rbac.authorization.k8s.io--system-web---ffb25da91c"},
		{"what it is cleaned to", identity{"rbac.authorization.k8s.io", "ClusterRole", "", "system-web"}, "clusterrole.rbac.authorization.k8s.io--system-web"},
		{"capitals", identity{"rbac.authorization.k8s.io", "ClusterRole", "", "Web"}, "clusterrole.rbac.authorization.k8s.io--web---9cf24c6ddd"},
		{"ends in what is cleaned", identity{"rbac.authorization.k8s.io", "Role", "web", "a:"}, "role.rbac.authorization.k8s.io--web--a---818a513ca6"},
		{"a separator in a name", identity{"", "Secret", "web", "a--b"}, "secret--web--a--b---9676f9100c"},
		{"dots and dashes", identity{"rbac.authorization.k8s.io", "Role", "web", "a.:.b"}, "role.rbac.authorization.k8s.io--web--a.b---da783f17fe"},
		{"too long", identity{"", "Secret", "web", long}, ("secret--web--" + long)[:240] + "---ae59003cee"},
		{"nothing to read", identity{"", "種", "", "種"}, "759cdaf0b1"},
	} {
		got := manifestNames([]identity{c.id})[0]
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.what, got, c.want)
		}
		if problems := validation.IsDNS1123Subdomain(got); len(problems) > 0 {
			t.Errorf("%s: %s is no name: %v", c.what, got, problems)
		}
	}
}

// TestNoTwoObjectsGiveOneName takes apart and puts together the same few parts in many ways.
func TestNoTwoObjectsGiveOneName(t *testing.T) {
	parts := []string{"", "a", "b", "a-b", "a--b", "a---b", "a.b", "a:b", "-a", "a-", "A", "b--a", "a--b--a", "a.b--a", strings.Repeat("a", 253), strings.Repeat("a", 252) + "b"}
	var ids []identity
	for _, group := range parts {
		for _, kind := range parts[1:] {
			for _, namespace := range parts {
				for _, name := range parts[1:] {
					ids = append(ids, identity{group, kind, namespace, name})
				}
			}
		}
	}
	of := map[string]identity{}
	names := manifestNames(ids)
	for i, name := range names {
		if before, ok := of[name]; ok {
			t.Fatalf("%s is the name of %q and of %q", name, before, ids[i])
		}
		if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
			t.Fatalf("%s of %q is no name: %v", name, ids[i], problems)
		}
		of[name] = ids[i]
	}
	slices.Reverse(ids)
	again := manifestNames(ids)
	slices.Reverse(again)
	if !slices.Equal(names, again) {
		t.Error("names depend on the order")
	}
}

func TestANameStaysWhateverElseIsRead(t *testing.T) {
	id := identity{"rbac.authorization.k8s.io", "ClusterRole", "", "system:web"}
	others := []identity{id, {id.group, id.kind, "", "system-web"}, {id.group, id.kind, "system", "web"}, {"", id.kind, "", id.name}}
	if alone, among := manifestNames(others[:1])[0], manifestNames(others)[0]; alone != among {
		t.Errorf("%s alone, %s among others", alone, among)
	}
}
