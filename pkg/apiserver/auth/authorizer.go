package auth

import (
	"context"
	"fmt"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	fleet "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placement "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/registration"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/tunnel"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// unconditional adds the rest of upstream's interface to an Authorize function.
type unconditional func(context.Context, authorizer.Attributes) (authorizer.Decision, string, error)

func (f unconditional) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	return f(ctx, a)
}

func (f unconditional) ConditionsAwareAuthorize(ctx context.Context, a authorizer.Attributes) authorizer.ConditionsAwareDecision {
	return authorizer.ConditionsAwareDecisionFromParts(f(ctx, a))
}

func (f unconditional) EvaluateConditions(context.Context, authorizer.ConditionsAwareDecision, authorizer.ConditionsData) (authorizer.Decision, string, error) {
	return authorizer.DecisionDeny, "", authorizer.ErrorConditionEvaluationNotSupported
}

// views knows what syncers see.
type views struct{ kinds workload.Source }

// scopes decides by the scope of the request, before roles are asked:
//
//	scope                user                        decision
//	none                 anyone                      no opinion (health, version)
//	target T             the server, syncer of T     what a syncer needs, else deny
//	target T             anyone else                 deny
//	root, no target      who registers T, or its     the one request for a certificate of T, else deny
//	                     syncer
//	any other, no target a syncer                    deny
//	*                    the server, an admin        no opinion (allowed later)
//	*                    anyone else                 deny
//	one                  anyone                      deny to impersonate the system, else no opinion
//
// It decides reviews, too: these rules hold for every user of whom a review asks.
func (v views) scopes(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	s, scoped := scope.From(ctx)
	if !scoped {
		return authorizer.DecisionNoOpinion, "", nil
	}
	target, isSyncer := SyncerOf(a.GetUser())
	requests := registration.NamesOf(a.GetUser().GetName(), a.GetUser().GetGroups(), registration.UIDOf(a.GetUser().GetExtra()))
	switch {
	case a.GetUser().GetName() == ServerUser:
		if _, ok := tunnel.TargetOf(a.GetPath()); ok && !a.IsResourceRequest() && a.GetVerb() == "get" && s == (scope.Scope{Cluster: scope.Root}) {
			return authorizer.DecisionAllow, "", nil
		}
		return authorizer.DecisionDeny, "a server may ask another one for streams through its tunnels, and for nothing else", nil
	case len(requests) > 0 && s == scope.Scope{Cluster: scope.Root}:
		if asksFor(requests, a) {
			return authorizer.DecisionAllow, "", nil
		}
		return authorizer.DecisionDeny, "who registers a physical cluster may make and read one request for a certificate, called " + requests[0], nil
	case s.Target != "" && (IsSystem(a.GetUser()) || isSyncer && target == s.Target):
		return v.syncer(s, a)
	case s.Target != "" || isSyncer:
		return authorizer.DecisionDeny, "the view of a physical cluster is for its syncer only", nil
	case s.Cluster == scope.Wildcard && !IsMaster(a.GetUser()):
		return authorizer.DecisionDeny, "only the system may look at all logical clusters", nil
	case strings.HasPrefix(a.GetVerb(), "impersonate") && impersonatesSystem(a) && !IsMaster(a.GetUser()):
		return authorizer.DecisionDeny, "the identities of the control plane cannot be impersonated", nil
	}
	return authorizer.DecisionNoOpinion, "", nil
}

// asksFor says that a is about the request for a certificate of one of these names. That a new one
// has it is asked where it is made.
func asksFor(requests []string, a authorizer.Attributes) bool {
	if !a.IsResourceRequest() || a.GetAPIGroup() != certificatesv1.GroupName || a.GetResource() != "certificatesigningrequests" || a.GetSubresource() != "" {
		return false
	}
	return a.GetVerb() == "create" && (a.GetName() == "" || slices.Contains(requests, a.GetName())) || a.GetVerb() == "get" && slices.Contains(requests, a.GetName())
}

// serverPaths denies what is about the whole server (metrics, profiles) to who
// is no admin of it:
//
//	scope           user                  path             decision
//	none or root    anyone                any              no opinion (roles of root)
//	target T        anyone                any              no opinion (scopes decides)
//	one             an admin              any              no opinion (allowed later)
//	one             anyone else           of clusterPaths  no opinion
//	one             anyone else           any other        deny
//
// It decides requests to this server only. A review asks what the roles of a
// logical cluster say of a path, and the path is some other server's: an operator
// asks whether who scrapes it may get its /metrics.
func serverPaths(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	s, scoped := scope.From(ctx)
	if scoped && s.Target == "" && !a.IsResourceRequest() && s.Cluster != scope.Root && !IsMaster(a.GetUser()) && !isOfCluster(a.GetPath()) {
		return authorizer.DecisionDeny, "this path is about the whole server, not about a logical cluster", nil
	}
	return authorizer.DecisionNoOpinion, "", nil
}

// clusterPaths are the paths, and those below them, that are about a logical
// cluster or tell nothing. Any other may tell about all of them: a role of a
// logical cluster, be it cluster-admin, is no reason to show it.
var clusterPaths = []string{"/api", "/apis", "/openapi", "/version", "/healthz", "/livez", "/readyz", OpenIDConfigPath, OpenIDKeysPath}

func isOfCluster(path string) bool {
	return path == "/" || slices.ContainsFunc(clusterPaths, func(p string) bool {
		return path == p || strings.HasPrefix(path, p+"/")
	})
}

func impersonatesSystem(a authorizer.Attributes) bool {
	name := a.GetName()
	return name == user.SystemPrivilegedGroup || name == user.APIServerUser || strings.HasPrefix(name, systemPrefix)
}

// syncer allows what a syncer needs. Which objects it sees and may change is
// decided further in: by the view of its target and by admission. It knows its kinds,
// so it needs no discovery: that would show what tenants define, metrics and profiles
// what all of them do.
func (v views) syncer(s scope.Scope, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if !a.IsResourceRequest() && a.GetPath() == tunnel.Path && s.Cluster == scope.Root && a.GetVerb() == "get" {
		return authorizer.DecisionAllow, "", nil
	}
	if !a.IsResourceRequest() {
		return authorizer.DecisionDeny, "a syncer reads objects of its view, no documents and nothing about the server", nil
	}
	if v.syncerMay(s, a) {
		return authorizer.DecisionAllow, "", nil
	}
	return authorizer.DecisionDeny, fmt.Sprintf("a syncer may not %s %s here", a.GetVerb(), a.GetResource()), nil
}

// syncerMayOfManifests is what a syncer needs in root for what is placed there: Manifests, and the
// Namespaces that they are in.
func syncerMayOfManifests(gr schema.GroupResource, a authorizer.Attributes) bool {
	switch gr {
	case fleet.Resource("manifests"), schema.GroupResource{Resource: "namespaces"}:
		return a.GetSubresource() == "" && a.IsReadOnly()
	case placement.Resource("copies"):
		return a.GetSubresource() == "" && a.GetVerb() != "deletecollection"
	case schema.GroupResource{Resource: "events"}:
		return a.GetSubresource() == "" && (a.GetVerb() == "create" || a.GetVerb() == "update" || a.GetVerb() == "patch" || a.GetVerb() == "get")
	}
	return false
}

func (v views) syncerMay(s scope.Scope, a authorizer.Attributes) bool {
	gr := schema.GroupResource{Group: a.GetAPIGroup(), Resource: a.GetResource()}
	if s.Cluster == scope.Root {
		switch gr {
		case fleet.Resource("physicalclusters"):
			return a.GetName() == s.Target && (a.IsReadOnly() || a.GetSubresource() == "status") || a.GetVerb() == "list" || a.GetVerb() == "watch"
		case fleet.Resource("orphans"): // admission says which
			return a.GetVerb() != "deletecollection" && (a.GetSubresource() == "" || a.GetSubresource() == "status")
		case schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}:
			return a.GetNamespace() == fleet.LeaseNamespace && a.GetVerb() != "deletecollection" && (a.GetName() == s.Target || a.GetVerb() == "create")
		}
		return syncerMayOfManifests(gr, a)
	}
	kind, ok := v.kinds.Current().Find(gr)
	switch {
	case gr == fleet.Resource("orphans"), gr == fleet.Resource("placedkinds"), gr == placement.Resource("serviceimports"), gr == placement.Resource("podimports"):
		return a.IsReadOnly()
	case gr == placement.Resource("copies"):
		return a.GetVerb() != "deletecollection"
	case gr.Resource == "events" && (gr.Group == "" || gr.Group == "events.k8s.io"):
		return a.GetVerb() == "create" || a.GetVerb() == "update" || a.GetVerb() == "patch" || a.GetVerb() == "get"
	case gr.Group == "" && gr.Resource == "serviceaccounts": // the registry says which tokens
		return a.GetSubresource() == "" && a.IsReadOnly() || a.GetSubresource() == "token" && a.GetVerb() == "create" && s.Cluster != scope.Wildcard
	case gr == placement.Resource("podreviews"): // admission says about which pods
		return a.GetSubresource() == "" && a.GetVerb() == "create" && s.Cluster != scope.Wildcard
	case a.GetSubresource() != "" && a.GetSubresource() != "status":
		return false // no way into the pods of others leads through here
	case ok && kind.Copied() && a.IsReadOnly():
		return true
	case ok && kind.Observed:
		return a.GetVerb() != "deletecollection"
	}
	return false
}
