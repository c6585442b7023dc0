package auth

import (
	"encoding/base64"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac"

	"github.com/atoll-dev/atoll/pkg/registration"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/workload"
)

var (
	loopback = &user.DefaultInfo{Name: user.APIServerUser, Groups: []string{user.SystemPrivilegedGroup}}
	admin    = &user.DefaultInfo{Name: "admin", Groups: []string{user.SystemPrivilegedGroup}}
	alice    = &user.DefaultInfo{Name: "alice", Groups: []string{user.AllAuthenticated}}
	east     = &user.DefaultInfo{Name: SyncerUser("east"), Groups: []string{SyncersGroup}, Extra: map[string][]string{registration.UIDKey: {"1"}}}
	// impostor has the name, but not the group that only our certificates give.
	impostor = &user.DefaultInfo{Name: SyncerUser("east")}
)

func TestScopesDecideBeforeRoles(t *testing.T) {
	get := authorizer.AttributesRecord{Verb: "get", APIVersion: "v1", Resource: "pods", Namespace: "web", Name: "a", ResourceRequest: true}
	with := func(f func(*authorizer.AttributesRecord)) authorizer.AttributesRecord { a := get; f(&a); return a }
	list := with(func(a *authorizer.AttributesRecord) { a.Verb, a.Name = "list", "" })
	inPod := func(verb, subresource string) authorizer.AttributesRecord {
		return with(func(a *authorizer.AttributesRecord) { a.Verb, a.Subresource = verb, subresource })
	}
	createPod := with(func(a *authorizer.AttributesRecord) { a.Verb = "create" })
	createSecret := with(func(a *authorizer.AttributesRecord) { a.Verb, a.Resource = "create", "secrets" })
	deleteDeployment := with(func(a *authorizer.AttributesRecord) { a.Verb, a.APIGroup, a.Resource = "delete", "apps", "deployments" })
	createCopy := with(func(a *authorizer.AttributesRecord) {
		a.Verb, a.APIGroup, a.Resource = "create", "placement.atoll.dev", "copies"
	})
	status := func(name string) authorizer.AttributesRecord {
		return authorizer.AttributesRecord{Verb: "patch", APIGroup: "fleet.atoll.dev", Resource: "physicalclusters", Subresource: "status", Name: name, ResourceRequest: true}
	}
	lease := func(name string) authorizer.AttributesRecord {
		return authorizer.AttributesRecord{Verb: "update", APIGroup: "coordination.k8s.io", Resource: "leases", Namespace: "atoll-system", Name: name, ResourceRequest: true}
	}
	spec := authorizer.AttributesRecord{Verb: "update", APIGroup: "fleet.atoll.dev", Resource: "physicalclusters", Name: "east", ResourceRequest: true}
	impersonate := authorizer.AttributesRecord{Verb: "impersonate", Resource: "groups", Name: user.SystemPrivilegedGroup, ResourceRequest: true}
	impersonateSyncer := authorizer.AttributesRecord{Verb: "impersonate", Resource: "users", Name: SyncerUser("east"), ResourceRequest: true}
	impersonateBob := authorizer.AttributesRecord{Verb: "impersonate", Resource: "users", Name: "bob", ResourceRequest: true}
	impersonateNew := authorizer.AttributesRecord{Verb: "impersonate:user-info", Resource: "groups", Name: user.SystemPrivilegedGroup, ResourceRequest: true}
	opens := authorizer.AttributesRecord{Verb: "get", Path: "/tunnel"}
	streams := authorizer.AttributesRecord{Verb: "get", Path: "/tunnels/east"}
	metrics := authorizer.AttributesRecord{Verb: "get", Path: "/metrics"}
	discovery := authorizer.AttributesRecord{Verb: "get", Path: "/apis"}

	shop, all := scope.Scope{Cluster: "shop"}, scope.Scope{Cluster: scope.Wildcard}
	eastShop, eastAll, eastRoot := scope.Scope{Cluster: "shop", Target: "east"}, scope.Scope{Cluster: scope.Wildcard, Target: "east"}, scope.Scope{Cluster: scope.Root, Target: "east"}
	westShop := scope.Scope{Cluster: "shop", Target: "west"}

	const allow, deny, pass = authorizer.DecisionAllow, authorizer.DecisionDeny, authorizer.DecisionNoOpinion
	account := func(verb, subresource string) authorizer.AttributesRecord {
		return authorizer.AttributesRecord{Verb: verb, Resource: "serviceaccounts", Subresource: subresource, Namespace: "web", Name: "robot", ResourceRequest: true}
	}
	review := func(verb string) authorizer.AttributesRecord {
		return authorizer.AttributesRecord{Verb: verb, APIGroup: "placement.atoll.dev", Resource: "podreviews", Namespace: "web", ResourceRequest: true}
	}
	joins := &user.DefaultInfo{Name: "system:serviceaccount:atoll-system:register-east", Groups: []string{user.AllAuthenticated}}
	server := &user.DefaultInfo{Name: ServerUser, Groups: []string{user.AllAuthenticated}}
	root := scope.Scope{Cluster: scope.Root}
	signing := func(verb, name string) authorizer.AttributesRecord {
		return authorizer.AttributesRecord{Verb: verb, APIGroup: "certificates.k8s.io", Resource: "certificatesigningrequests", Name: name, ResourceRequest: true}
	}
	approval := signing("update", "syncer.east.first")
	approval.Subresource = "approval"
	for name, tc := range map[string]struct {
		scope scope.Scope
		user  user.Info
		attrs authorizer.AttributesRecord
		want  authorizer.Decision
	}{
		"no scope is left to the public paths":              {scope.Scope{}, alice, get, pass},
		"a user in a logical cluster is left to its roles":  {shop, alice, get, pass},
		"an admin in a logical cluster":                     {shop, admin, get, pass},
		"the server in a target's view":                     {eastAll, loopback, list, allow},
		"a syncer in its own view":                          {eastAll, east, list, allow},
		"a syncer reads discovery":                          {eastShop, east, discovery, deny},
		"a syncer reads metrics":                            {eastAll, east, metrics, deny},
		"a syncer in another view":                          {westShop, east, get, deny},
		"a syncer outside any view":                         {shop, east, get, deny},
		"a user in a view":                                  {eastShop, alice, get, deny},
		"an admin in a view":                                {eastShop, admin, get, deny},
		"an impostor in a view":                             {eastShop, impostor, get, deny},
		"a syncer makes a pod that it saw":                  {eastShop, east, createPod, allow},
		"a syncer reads the logs of a pod":                  {eastShop, east, inPod("get", "log"), deny},
		"a syncer runs a command in a pod":                  {eastShop, east, inPod("create", "exec"), deny},
		"a syncer runs a command in a pod by WebSocket":     {eastShop, east, inPod("get", "exec"), deny},
		"who registers makes a request":                     {root, joins, signing("create", ""), allow},
		"who registers reads its request":                   {root, joins, signing("get", "syncer.east.first"), allow},
		"who registers reads that of another":               {root, joins, signing("get", "syncer.west.first"), deny},
		"who registers lists requests":                      {root, joins, signing("list", ""), deny},
		"who registers deletes its request":                 {root, joins, signing("delete", "syncer.east.first"), deny},
		"who registers approves itself":                     {root, joins, approval, deny},
		"who registers reads pods of root":                  {root, joins, get, deny},
		"who registers reads discovery":                     {root, joins, discovery, deny},
		"who registers looks into the view of its target":   {eastRoot, joins, status("east"), deny},
		"who is called so in a logical cluster is nobody":   {shop, joins, get, pass},
		"a syncer renews its certificate":                   {root, east, signing("create", ""), allow},
		"a syncer reads the request that it made":           {root, east, signing("get", "syncer.east.renewal"), allow},
		"a syncer reads the request that it made by UID":    {root, east, signing("get", "syncer.east.1.renewal"), allow},
		"a syncer reads the request of a successor":         {root, east, signing("get", "syncer.east.2.renewal"), deny},
		"a syncer reads the first request":                  {root, east, signing("get", "syncer.east.first"), deny},
		"a syncer asks for a certificate elsewhere":         {shop, east, signing("create", ""), deny},
		"a syncer opens its tunnel":                         {eastRoot, east, opens, allow},
		"a syncer opens a tunnel below its own":             {eastRoot, east, authorizer.AttributesRecord{Verb: "get", Path: "/tunnel/x"}, deny},
		"a syncer opens another's tunnel":                   {scope.Scope{Cluster: scope.Root, Target: "west"}, east, opens, deny},
		"a syncer opens a tunnel elsewhere":                 {eastShop, east, opens, deny},
		"a syncer opens a tunnel outside any view":          {scope.Scope{Cluster: scope.Root}, east, opens, deny},
		"an admin opens a tunnel":                           {eastRoot, admin, opens, deny},
		"an impostor opens a tunnel":                        {eastRoot, impostor, opens, deny},
		"a server asks for a stream":                        {root, server, streams, allow},
		"a server asks for a stream of no physical cluster": {root, server, authorizer.AttributesRecord{Verb: "get", Path: "/tunnels/"}, deny},
		"a server asks for a stream elsewhere":              {shop, server, streams, deny},
		"a server asks for a stream in a view":              {eastRoot, server, streams, deny},
		"a server opens a tunnel":                           {eastRoot, server, opens, deny},
		"a server asks for metrics":                         {root, server, metrics, deny},
		"a server reads another's pods":                     {shop, server, account("get", ""), deny},
		"somebody is to be a server":                        {root, alice, authorizer.AttributesRecord{Verb: "impersonate", Resource: "users", Name: ServerUser, ResourceRequest: true}, deny},
		"a syncer makes a copy":                             {eastShop, east, createCopy, allow},
		"a syncer asks for a token":                         {eastShop, east, account("create", "token"), allow},
		"a syncer asks for a token of everywhere":           {eastAll, east, account("create", "token"), deny},
		"a syncer asks for a token in root":                 {eastRoot, east, account("create", "token"), deny},
		"a syncer asks about a pod":                         {eastShop, east, review("create"), allow},
		"a syncer asks about a pod of everywhere":           {eastAll, east, review("create"), deny},
		"a syncer asks about a pod in root":                 {eastRoot, east, review("create"), deny},
		"a syncer asks about another's pod":                 {westShop, east, review("create"), deny},
		"a syncer lists what was asked":                     {eastShop, east, review("list"), deny},
		"a syncer makes a service account":                  {eastShop, east, account("create", ""), deny},
		"a syncer reads service accounts":                   {eastAll, east, account("list", ""), allow},
		"a syncer makes a secret":                           {eastShop, east, createSecret, deny},
		"a syncer deletes a deployment":                     {eastShop, east, deleteDeployment, deny},
		"a syncer sees what is declared":                    {eastAll, east, authorizer.AttributesRecord{Verb: "watch", APIGroup: "fleet.atoll.dev", Resource: "placedkinds", ResourceRequest: true}, allow},
		"a syncer declares nothing":                         {eastRoot, east, authorizer.AttributesRecord{Verb: "create", APIGroup: "fleet.atoll.dev", Resource: "placedkinds", ResourceRequest: true}, deny},
		"a syncer reports its own status":                   {eastRoot, east, status("east"), allow},
		"a syncer reports another's status":                 {eastRoot, east, status("west"), deny},
		"a syncer renews its lease":                         {eastRoot, east, lease("east"), allow},
		"a syncer renews another's lease":                   {eastRoot, east, lease("west"), deny},
		"a syncer changes its own registration":             {eastRoot, east, spec, deny},
		"a syncer reads objects of root":                    {eastRoot, east, createSecret, deny},
		"a user over all logical clusters":                  {all, alice, list, deny},
		"an admin over all logical clusters":                {all, admin, list, pass},
		"a tenant impersonates the admins' group":           {shop, alice, impersonate, deny},
		"a tenant impersonates a syncer":                    {shop, alice, impersonateSyncer, deny},
		"a tenant impersonates its own user":                {shop, alice, impersonateBob, pass},
		"an admin impersonates the admins' group":           {shop, admin, impersonate, pass},
		"a tenant impersonates in the newer way":            {shop, alice, impersonateNew, deny},
		"a tenant discovers":                                {shop, alice, discovery, pass},
		"a review of metrics is left to roles":              {shop, alice, metrics, pass},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			if tc.scope.Cluster != "" {
				ctx = scope.With(ctx, tc.scope)
			}
			tc.attrs.User = tc.user
			got, reason, err := views{workload.Builtin()}.scopes(ctx, tc.attrs)
			if err != nil {
				t.Fatal(err)
			}
			if got != tc.want {
				t.Errorf("decision %v (%s), want %v", got, reason, tc.want)
			}
			if got == deny && reason == "" {
				t.Error("a denial without a reason")
			}
		})
	}
}

func TestPathsAboutTheWholeServerAreForItsAdmins(t *testing.T) {
	const deny, pass = authorizer.DecisionDeny, authorizer.DecisionNoOpinion
	shop, root, view := scope.Scope{Cluster: "shop"}, scope.Scope{Cluster: scope.Root}, scope.Scope{Cluster: "shop", Target: "east"}
	for name, tc := range map[string]struct {
		scope scope.Scope
		user  user.Info
		path  string
		want  authorizer.Decision
	}{
		"a tenant reads metrics":             {shop, alice, "/metrics", deny},
		"a tenant reads metrics of resource": {shop, alice, "/metrics/slis", deny},
		"a tenant reads profiles":            {shop, alice, "/debug/pprof/heap", deny},
		"a tenant reads a path of nobody":    {shop, alice, "/healthzz", deny},
		"a tenant discovers":                 {shop, alice, "/apis", pass},
		"a tenant asks for health":           {shop, alice, "/readyz/etcd", pass},
		"a tenant reads a resource":          {shop, alice, "", pass},
		"an admin reads metrics":             {shop, admin, "/metrics", pass},
		"a user of root reads metrics":       {root, alice, "/metrics", pass},
		"a syncer in its view":               {view, east, "/metrics", pass},
		"anybody without a logical cluster":  {scope.Scope{}, alice, "/metrics", pass},
	} {
		ctx := t.Context()
		if tc.scope.Cluster != "" {
			ctx = scope.With(ctx, tc.scope)
		}
		got, reason, err := serverPaths(ctx, authorizer.AttributesRecord{User: tc.user, Verb: "get", Path: tc.path, ResourceRequest: tc.path == ""})
		if err != nil || got != tc.want || got == deny && reason == "" {
			t.Errorf("%s: decision %v (%q), %v, want %v", name, got, reason, err, tc.want)
		}
	}
}

func TestClusterOfTokenTrustsOnlyOurIssuers(t *testing.T) {
	tokens := &Tokens{issuers: []string{"https://atoll.dev"}}
	for token, want := range map[string]string{
		"":    "",
		"a.b": "",
		// {"iss":"https://atoll.dev/clusters/shop"}
		"x.eyJpc3MiOiJodHRwczovL2F0b2xsLmRldi9jbHVzdGVycy9zaG9wIn0.y": "shop",
		// {"iss":"https://atoll.dev/clusters/*"}
		"x.eyJpc3MiOiJodHRwczovL2F0b2xsLmRldi9jbHVzdGVycy8qIn0.y": "",
		// {"iss":"https://example.com/clusters/shop"}
		"x.eyJpc3MiOiJodHRwczovL2V4YW1wbGUuY29tL2NsdXN0ZXJzL3Nob3AifQ.y": "",
	} {
		got, ok := tokens.ClusterOf(token)
		if got.String() != want || ok != (want != "") {
			t.Errorf("token %q: %q, %v; want %q", token, got, ok, want)
		}
	}
}

func TestDefaultRolesAreAggregated(t *testing.T) {
	defaults, err := NewDefaults()
	if err != nil {
		t.Fatal(err)
	}
	roles := defaults.ClusterRoles
	for _, name := range []string{"view", "edit", "admin"} {
		if len(roles[name].Rules) == 0 {
			t.Errorf("role %s has no rules", name)
		}
	}
	if len(roles["admin"].Rules) <= len(roles["edit"].Rules) || len(roles["edit"].Rules) <= len(roles["view"].Rules) {
		t.Error("admin must contain edit, and edit view")
	}
}

// Our kinds for the users of a namespace:
//
//	                    view  edit, admin
//	placements, copies  read  read: the server writes them
//	placementpolicies   read  read, write
//	placementreviews    -     ask
func TestUsersOfANamespaceMayPlaceIt(t *testing.T) {
	defaults, err := NewDefaults()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ verb, resource, roles string }{
		{"get", "placements", "view edit admin"}, {"watch", "copies", "view edit admin"}, {"list", "placementpolicies", "view edit admin"},
		{"create", "placementpolicies", "edit admin"}, {"patch", "placementpolicies", "edit admin"}, {"deletecollection", "placementpolicies", "edit admin"},
		{"create", "placementreviews", "edit admin"},
		{"update", "placements", ""}, {"delete", "copies", ""}, {"create", "clusterplacementpolicies", ""}, {"get", "physicalclusters", ""},
	} {
		var allowed []string
		for _, name := range []string{"view", "edit", "admin"} {
			a := authorizer.AttributesRecord{Verb: c.verb, APIGroup: "placement.atoll.dev", APIVersion: "v1alpha1", Resource: c.resource, Namespace: "web", Name: "x", ResourceRequest: true}
			if c.resource == "physicalclusters" {
				a.APIGroup = "fleet.atoll.dev"
			}
			if rbac.RulesAllow(a, defaults.ClusterRoles[name].Rules...) {
				allowed = append(allowed, name)
			}
		}
		if got := strings.Join(allowed, " "); got != c.roles {
			t.Errorf("%s %s: %q, want %q", c.verb, c.resource, got, c.roles)
		}
	}
}

func FuzzATokenNamesALogicalClusterOrNone(f *testing.F) {
	tokens := &Tokens{issuers: []string{"https://atoll.dev", "https://atoll.dev/clusters/a"}}
	for _, claims := range []string{`{"iss":"https://atoll.dev/clusters/shop"}`, `{"iss":"https://atoll.dev/clusters/../root"}`, `{"iss":"https://atoll.dev/clusters/a/clusters/b"}`,
		`{"iss":"https://atoll.dev/clusters/*"}`, `{"iss":"https://atoll.dev/clusters/ROOT"}`, `{"iss":["https://atoll.dev/clusters/root"]}`, ``} {
		f.Add(claims)
	}
	f.Fuzz(func(t *testing.T, claims string) {
		c, ok := tokens.ClusterOf("h." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".s")
		if ok && (scope.ValidateName(c.String()) != "" || c == scope.Wildcard) {
			t.Errorf("%s names the logical cluster %q", claims, c)
		}
	})
}
