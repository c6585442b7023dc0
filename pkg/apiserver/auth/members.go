package auth

import (
	"context"
	"slices"

	"github.com/kcp-dev/logicalcluster/v3"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/scope"
)

// bySubject finds bindings by logical cluster and subject.
const bySubject = "atoll.subject"

// A member of a logical cluster is one of its service accounts, or a user whom
// some binding there names, by name or group. What the default bindings give to
// everybody who is authenticated (discovery, reviews of oneself) they give to
// members only: identity providers and client certificates are those of the whole
// control plane, and a tenant's custom resources are nothing for other tenants.
func (r *RBAC) isMember(c logicalcluster.Name, u user.Info) bool {
	if slices.Contains(u.GetGroups(), serviceaccount.AllServiceAccountsGroup) {
		return true // tokens of other logical clusters are not accepted
	}
	if r.names(c, rbacv1.UserKind, u.GetName()) {
		return true
	}
	return slices.ContainsFunc(u.GetGroups(), func(group string) bool { return r.names(c, rbacv1.GroupKind, group) })
}

func (r *RBAC) names(c logicalcluster.Name, kind, name string) bool {
	value := subjectValue(c, kind, name)
	return len(r.clusterRoleBindings.ByIndex(bySubject, value)) > 0 || len(r.roleBindings.ByIndex(bySubject, value)) > 0
}

func subjectValue(c logicalcluster.Name, kind, name string) string {
	return c.String() + "|" + kind + "|" + name
}

// subjectIndex gives what a binding is found by. That a default binding is for
// everybody makes nobody a member, even if something else in it was changed.
func subjectIndex[T controller.Object](subjects func(T) []rbacv1.Subject, isDefault func(name string) bool) map[string]func(T) []string {
	return map[string]func(T) []string{bySubject: func(binding T) []string {
		var values []string
		for _, s := range subjects(binding) {
			if s.Kind == rbacv1.ServiceAccountKind || isEverybody(s) && isDefault(binding.GetName()) {
				continue
			}
			values = append(values, subjectValue(logicalcluster.From(binding), s.Kind, s.Name))
		}
		slices.Sort(values)
		return slices.Compact(values)
	}}
}

func isEverybody(s rbacv1.Subject) bool {
	return s.Kind == rbacv1.GroupKind && (s.Name == user.AllAuthenticated || s.Name == user.AllUnauthenticated)
}

// forNonMembers is a default binding without everybody; nil if nobody is left.
func forNonMembers(b *rbacv1.ClusterRoleBinding) *rbacv1.ClusterRoleBinding {
	if !slices.ContainsFunc(b.Subjects, isEverybody) {
		return b
	}
	subjects := slices.DeleteFunc(slices.Clone(b.Subjects), isEverybody)
	if len(subjects) == 0 {
		return nil
	}
	narrowed := *b
	narrowed.Subjects = subjects
	return &narrowed
}

type memberKey struct{}

// within tells ListClusterRoleBindings about whom it is asked.
func (r *RBAC) within(ctx context.Context, u user.Info) context.Context {
	c, ok := scope.ClusterFrom(ctx)
	return context.WithValue(ctx, memberKey{}, ok && u != nil && r.isMember(c, u))
}

// Authorize implements authorizer.Authorizer.
func (r *RBAC) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	return r.RBACAuthorizer.Authorize(r.within(ctx, a.GetUser()), a)
}

// ConditionsAwareAuthorize implements authorizer.Authorizer.
func (r *RBAC) ConditionsAwareAuthorize(ctx context.Context, a authorizer.Attributes) authorizer.ConditionsAwareDecision {
	return authorizer.ConditionsAwareDecisionFromParts(r.Authorize(ctx, a))
}

// RulesFor implements authorizer.RuleResolver.
func (r *RBAC) RulesFor(ctx context.Context, u user.Info, namespace string) ([]authorizer.ResourceRuleInfo, []authorizer.NonResourceRuleInfo, bool, error) {
	return r.RBACAuthorizer.RulesFor(r.within(ctx, u), u, namespace)
}
