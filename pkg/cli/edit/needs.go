package edit

import (
	"slices"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/atoll-dev/atoll/pkg/workload"
)

var (
	reading = []string{"get", "list", "watch"}
	writing = []string{"get", "list", "watch", "create", "patch", "delete"}
)

// Needs is what a syncer does on a physical cluster: it writes the kinds that are copied
// or mirrored, the conditions of pods and the last runs of CronJobs, reads what it reports, and reaches into
// pods.
func Needs(kinds workload.Catalog) []rbacv1.PolicyRule {
	groups := map[string][]string{}
	var order []string
	for _, kind := range kinds.All() {
		if _, ok := groups[kind.Group]; !ok {
			order = append(order, kind.Group)
		}
		groups[kind.Group] = append(groups[kind.Group], kind.Resource)
	}
	var rules []rbacv1.PolicyRule
	for _, group := range order {
		rules = append(rules, rbacv1.PolicyRule{APIGroups: []string{group}, Resources: groups[group], Verbs: writing})
	}
	for _, kind := range kinds.All() {
		if kind.Semantics == workload.CronJobSemantics { // when it last ran elsewhere, see docs/moving.md
			rules = append(rules, rbacv1.PolicyRule{APIGroups: []string{kind.Group}, Resources: []string{kind.Resource + "/status"}, Verbs: []string{"patch"}})
		}
	}
	return append(rules,
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods/status", "pods/ephemeralcontainers", "pods/resize"}, Verbs: []string{"patch"}},
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods/log"}, Verbs: []string{"get"}},
		// WebSocket asks by get, SPDY by create, and API servers since 1.35 want both.
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods/exec", "pods/attach", "pods/portforward"}, Verbs: []string{"get", "create"}},
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"nodes", "events"}, Verbs: reading},
		// kubectl top, see docs/reaching-down.md.
		rbacv1.PolicyRule{APIGroups: []string{"metrics.k8s.io"}, Resources: []string{"pods", "nodes"}, Verbs: []string{"list"}},
		rbacv1.PolicyRule{APIGroups: []string{"storage.k8s.io"}, Resources: []string{"storageclasses"}, Verbs: reading},
		// Volumes that are handed over, see docs/volumes.md.
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"persistentvolumes"}, Verbs: []string{"get", "create", "patch", "delete"}},
		rbacv1.PolicyRule{APIGroups: []string{"storage.k8s.io"}, Resources: []string{"volumeattachments"}, Verbs: []string{"list"}},
		// Snapshots of volumes, and what is restored from them.
		rbacv1.PolicyRule{APIGroups: []string{"snapshot.storage.k8s.io"}, Resources: []string{"volumesnapshots", "volumesnapshotcontents"}, Verbs: []string{"get", "create", "delete"}},
		rbacv1.PolicyRule{APIGroups: []string{"snapshot.storage.k8s.io"}, Resources: []string{"volumesnapshotclasses"}, Verbs: []string{"list"}},
		rbacv1.PolicyRule{APIGroups: []string{"node.k8s.io"}, Resources: []string{"runtimeclasses"}, Verbs: reading},
		rbacv1.PolicyRule{APIGroups: []string{"networking.k8s.io"}, Resources: []string{"ingressclasses"}, Verbs: reading},
		rbacv1.PolicyRule{APIGroups: []string{"scheduling.k8s.io"}, Resources: []string{"priorityclasses"}, Verbs: reading},
		// Whether what is not served any more can be there, see docs/custom-resources.md.
		rbacv1.PolicyRule{APIGroups: []string{"apiextensions.k8s.io"}, Resources: []string{"customresourcedefinitions"}, Verbs: []string{"get"}},
		rbacv1.PolicyRule{APIGroups: []string{"apiregistration.k8s.io"}, Resources: []string{"apiservices"}, Verbs: []string{"list"}},
	)
}

// Questions are the rules as questions, whether somebody may do each of that everywhere.
func Questions(rules []rbacv1.PolicyRule) []authorizationv1.ResourceAttributes {
	var out []authorizationv1.ResourceAttributes
	for _, rule := range rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					out = append(out, Question(verb, group, resource))
				}
			}
		}
	}
	return out
}

// Question is whether somebody may do something everywhere.
func Question(verb, group, resource string) authorizationv1.ResourceAttributes {
	q := authorizationv1.ResourceAttributes{Verb: verb, Group: group, Version: "*", Resource: resource}
	if i := slices.Index([]byte(resource), '/'); i >= 0 {
		q.Resource, q.Subresource = resource[:i], resource[i+1:]
	}
	return q
}
