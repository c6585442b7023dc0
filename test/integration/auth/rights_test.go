package auth

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

func TestNobodyGivesMoreThanHeHas(t *testing.T) {
	s := shared(t)
	ctx := s.NewCluster(t, "escalate")
	bind(ctx, t, s, "admin", "adam")
	adam := as(s, "adam")
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "configs"}, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get"}}}}
	eventually(t, "an admin makes a role of what he has", func() error {
		_, err := adam.RbacV1().Roles("default").Create(ctx, role, metav1.CreateOptions{})
		return err
	})
	role.Name, role.Rules[0].APIGroups, role.Rules[0].Resources = "nodes", []string{"certificates.k8s.io"}, []string{"*"}
	if _, err := adam.RbacV1().Roles("default").Create(ctx, role, metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("a role of what he has not: %v, want Forbidden", err)
	}
	to := func(name string) *rbacv1.RoleBinding {
		return &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{GenerateName: "b-"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, Name: "friend"}}}
	}
	if _, err := adam.RbacV1().RoleBindings("default").Create(ctx, to("edit"), metav1.CreateOptions{}); err != nil {
		t.Errorf("binding a default role that he has: %v", err)
	}
	if _, err := adam.RbacV1().RoleBindings("default").Create(ctx, to("cluster-admin"), metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("binding a default role that he has not: %v, want Forbidden", err)
	}
	if _, err := adam.RbacV1().ClusterRoles().Update(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "edit"}}, metav1.UpdateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("changing a default role: %v, want Forbidden", err)
	}
}

func TestReviewsKnowTheRolesOfTheLogicalCluster(t *testing.T) {
	s := shared(t)
	a, b := s.NewCluster(t, "review-a"), s.NewCluster(t, "review-b")
	bind(a, t, s, "view", "vera")
	vera := as(s, "vera", "system:authenticated")
	attributes := &authorizationv1.ResourceAttributes{Verb: "list", Resource: "configmaps", Namespace: "default"}
	self := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: attributes}}
	eventually(t, "vera may list in a", func() error {
		r, err := vera.AuthorizationV1().SelfSubjectAccessReviews().Create(a, self, metav1.CreateOptions{})
		if err == nil && !r.Status.Allowed {
			return apierrors.NewForbidden(rbacv1.Resource("roles"), "view", nil)
		}
		return err
	})
	if r, err := vera.AuthorizationV1().SelfSubjectAccessReviews().Create(b, self, metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("in another logical cluster: %+v, %v", r, err)
	}
	other := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: "vera", ResourceAttributes: attributes}}
	if r, err := s.Kube.AuthorizationV1().SubjectAccessReviews().Create(a, other, metav1.CreateOptions{}); err != nil || !r.Status.Allowed {
		t.Errorf("asked by an admin: %+v, %v", r, err)
	}
	local := &authorizationv1.LocalSubjectAccessReview{ObjectMeta: metav1.ObjectMeta{Namespace: "default"}, Spec: other.Spec}
	if r, err := s.Kube.AuthorizationV1().LocalSubjectAccessReviews("default").Create(a, local, metav1.CreateOptions{}); err != nil || !r.Status.Allowed {
		t.Errorf("asked for a namespace: %+v, %v", r, err)
	}
	rules, err := vera.AuthorizationV1().SelfSubjectRulesReviews().Create(a, &authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: "default"}}, metav1.CreateOptions{})
	if err != nil || rules.Status.Incomplete || !slices.ContainsFunc(rules.Status.ResourceRules, func(r authorizationv1.ResourceRule) bool { return slices.Contains(r.Resources, "configmaps") }) {
		t.Errorf("rules: %+v, %v", rules, err)
	}
	if rules, err = vera.AuthorizationV1().SelfSubjectRulesReviews().Create(b, &authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: "default"}}, metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("rules in another logical cluster: %+v, %v", rules, err)
	}
	me, err := vera.AuthenticationV1().SelfSubjectReviews().Create(a, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil || me.Status.UserInfo.Username != "vera" {
		t.Errorf("who am I: %+v, %v", me, err)
	}
}

// An operator with secured metrics reviews whether who scrapes it may. The path is
// one of the operator's, not of this server.
func TestAReviewOfAPathSaysWhatTheRolesOfTheLogicalClusterSay(t *testing.T) {
	s := shared(t)
	a, b := s.NewCluster(t, "review-path-a"), s.NewCluster(t, "review-path-b")
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "scrape"}, Rules: []rbacv1.PolicyRule{{Verbs: []string{"get"}, NonResourceURLs: []string{"/metrics"}}}}
	for _, ctx := range []context.Context{a, b} {
		if _, err := s.Kube.RbacV1().ClusterRoles().Create(ctx, role, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	const scraper = "system:serviceaccount:default:default"
	bind(a, t, s, "scrape", scraper)
	spec := func(user, path string) authorizationv1.SubjectAccessReviewSpec {
		return authorizationv1.SubjectAccessReviewSpec{User: user, Groups: []string{"system:serviceaccounts", "system:authenticated"},
			NonResourceAttributes: &authorizationv1.NonResourceAttributes{Verb: "get", Path: path}}
	}
	review := func(ctx context.Context, user, path string) authorizationv1.SubjectAccessReviewStatus {
		t.Helper()
		r, err := s.Kube.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{Spec: spec(user, path)}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return r.Status
	}
	eventually(t, "who is bound to the role may", func() error {
		if status := review(a, scraper, "/metrics"); !status.Allowed {
			return fmt.Errorf("%+v", status)
		}
		return nil
	})
	for what, status := range map[string]authorizationv1.SubjectAccessReviewStatus{
		"another path":                         review(a, scraper, "/debug/pprof"),
		"another user":                         review(a, "system:serviceaccount:default:other", "/metrics"),
		"a logical cluster that binds nobody":  review(b, scraper, "/metrics"),
		"a syncer, whatever the roles say":     review(a, "system:atoll:syncer:east", "/metrics"),
		"a user of another path of the server": review(b, scraper, "/debug/pprof/heap"),
	} {
		if status.Allowed {
			t.Errorf("%s: %+v, want not allowed", what, status)
		}
	}
	token := bearer(s, tokenFor(a, t, s, authenticationv1.TokenRequestSpec{}))
	self := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{NonResourceAttributes: spec("", "/metrics").NonResourceAttributes}}
	if r, err := client(token).AuthorizationV1().SelfSubjectAccessReviews().Create(a, self, metav1.CreateOptions{}); err != nil || !r.Status.Allowed {
		t.Errorf("asked by the account itself: %+v, %v", r, err)
	}
	// The role says nothing about the metrics of this server, which are of all.
	if _, err := client(token).Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(a); !apierrors.IsForbidden(err) {
		t.Errorf("metrics of the server: %v, want Forbidden", err)
	}
}

func TestImpersonationEndsWhereThePowerBeyondALogicalClusterBegins(t *testing.T) {
	s := shared(t)
	ctx := owned(t, s, "impersonate", "olga")
	olga := func(c rest.ImpersonationConfig) error {
		config := bearer(s, "olga-token")
		config.Impersonate = c
		_, err := client(config).CoreV1().Secrets("default").List(ctx, metav1.ListOptions{})
		return err
	}
	if err := olga(rest.ImpersonationConfig{UserName: "bob", Groups: []string{"ops"}, UID: "1", Extra: map[string][]string{"scopes": {"x"}}}); !apierrors.IsForbidden(err) || !saysUser(err, "bob") {
		t.Errorf("as somebody without rights: %v, want Forbidden to bob", err)
	}
	if err := olga(rest.ImpersonationConfig{UserName: "olga"}); err != nil {
		t.Errorf("as herself: %v", err)
	}
	if err := olga(rest.ImpersonationConfig{UserName: "system:serviceaccount:default:default"}); !apierrors.IsForbidden(err) || !saysUser(err, "system:serviceaccount:default:default") {
		t.Errorf("as a service account: %v", err)
	}
	for name, c := range map[string]rest.ImpersonationConfig{
		"the admins' group":        {UserName: "olga", Groups: []string{"system:masters"}},
		"the admins' group, last":  {UserName: "olga", Groups: []string{"people", "system:masters"}},
		"the server":               {UserName: "system:apiserver"},
		"a syncer":                 {UserName: "system:atoll:syncer:east"},
		"the group of the syncers": {UserName: "olga", Groups: []string{"system:atoll:syncers"}},
	} {
		if err := olga(c); !apierrors.IsForbidden(err) || !saysUser(err, "olga") {
			t.Errorf("as %s: %v, want Forbidden to olga", name, err)
		}
	}
}

// saysUser says whether a refusal is addressed to a user.
func saysUser(err error, name string) bool {
	status, ok := err.(apierrors.APIStatus)
	return ok && strings.Contains(status.Status().Message, fmt.Sprintf("User %q cannot", name))
}

func TestTheRightToImpersonateIsOfOneLogicalCluster(t *testing.T) {
	s := shared(t)
	a, b := s.NewCluster(t, "impersonate-a"), s.NewCluster(t, "impersonate-b")
	for _, verb := range []string{"impersonate", "impersonate:user-info", "impersonate-on:user-info:list"} {
		role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{GenerateName: "imp-"}, Rules: []rbacv1.PolicyRule{
			{Verbs: []string{verb}, APIGroups: []string{"*"}, Resources: []string{"*"}}}}
		role, err := s.Kube.RbacV1().ClusterRoles().Create(a, role, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		bind(a, t, s, role.Name, "mallory")
	}
	bind(a, t, s, "cluster-admin", "victim")
	bind(b, t, s, "cluster-admin", "victim")
	config := bearer(s, "mallory-token")
	config.Impersonate.UserName = "victim"
	eventually(t, "mallory is the victim in a", func() error {
		_, err := client(config).CoreV1().Secrets("default").List(a, metav1.ListOptions{})
		return err
	})
	if _, err := client(config).CoreV1().Secrets("default").List(b, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("mallory is the victim in b, too: %v, want Forbidden", err)
	}
}
