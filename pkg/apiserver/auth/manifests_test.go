package auth

import (
	"testing"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// What is in root beside Manifests are the credentials of physical clusters, among others.
func TestInRootASyncerReadsManifestsAndWritesWhatBecameOfThem(t *testing.T) {
	view, all := scope.Scope{Cluster: scope.Root, Target: "east"}, scope.Scope{Cluster: scope.Wildcard, Target: "east"}
	inRoot := func(verb, group, resource, subresource string) authorizer.AttributesRecord {
		return authorizer.AttributesRecord{User: east, Verb: verb, APIGroup: group, Resource: resource, Subresource: subresource, Namespace: "monitoring", ResourceRequest: true}
	}
	const allow, deny = authorizer.DecisionAllow, authorizer.DecisionDeny
	for name, c := range map[string]struct {
		scope scope.Scope
		attrs authorizer.AttributesRecord
		want  authorizer.Decision
	}{
		"lists Manifests of its view":       {view, inRoot("list", "fleet.atoll.dev", "manifests", ""), allow},
		"watches Manifests of its view":     {all, inRoot("watch", "fleet.atoll.dev", "manifests", ""), allow},
		"reads a Manifest outside any view": {scope.Scope{Cluster: scope.Root}, inRoot("get", "fleet.atoll.dev", "manifests", ""), deny},
		"reads a Manifest in another view":  {scope.Scope{Cluster: scope.Root, Target: "west"}, inRoot("get", "fleet.atoll.dev", "manifests", ""), deny},
		"makes a Manifest":                  {view, inRoot("create", "fleet.atoll.dev", "manifests", ""), deny},
		"makes a Manifest everywhere":       {all, inRoot("create", "fleet.atoll.dev", "manifests", ""), deny},
		"changes a Manifest":                {view, inRoot("patch", "fleet.atoll.dev", "manifests", ""), deny},
		"deletes a Manifest":                {view, inRoot("delete", "fleet.atoll.dev", "manifests", ""), deny},
		"deletes all Manifests":             {view, inRoot("deletecollection", "fleet.atoll.dev", "manifests", ""), deny},
		"writes the status of a Manifest":   {view, inRoot("update", "fleet.atoll.dev", "manifests", "status"), deny},
		"reads the status of a Manifest":    {view, inRoot("get", "fleet.atoll.dev", "manifests", "status"), deny},
		"lists namespaces":                  {view, inRoot("list", "", "namespaces", ""), allow},
		"makes a namespace":                 {view, inRoot("create", "", "namespaces", ""), deny},
		"deletes a namespace":               {view, inRoot("delete", "", "namespaces", ""), deny},
		"finalizes a namespace":             {view, inRoot("update", "", "namespaces", "finalize"), deny},
		"reads secrets":                     {view, inRoot("list", "", "secrets", ""), deny},
		"reads config maps":                 {view, inRoot("get", "", "configmaps", ""), deny},
		"reads deployments":                 {view, inRoot("get", "apps", "deployments", ""), deny},
		"makes a pod":                       {view, inRoot("create", "", "pods", ""), deny},
		"reads service accounts":            {view, inRoot("get", "", "serviceaccounts", ""), deny},
		"reads policies":                    {view, inRoot("list", "placement.atoll.dev", "clusterplacementpolicies", ""), deny},
		"changes a placement":               {view, inRoot("update", "placement.atoll.dev", "placements", ""), deny},
		"lists its records":                 {view, inRoot("list", "placement.atoll.dev", "copies", ""), allow},
		"makes a record":                    {view, inRoot("create", "placement.atoll.dev", "copies", ""), allow},
		"writes its record":                 {view, inRoot("update", "placement.atoll.dev", "copies", ""), allow},
		"removes its record":                {view, inRoot("delete", "placement.atoll.dev", "copies", ""), allow},
		"removes all records":               {view, inRoot("deletecollection", "placement.atoll.dev", "copies", ""), deny},
		"writes the status of a record":     {view, inRoot("update", "placement.atoll.dev", "copies", "status"), deny},
		"makes an event":                    {view, inRoot("create", "", "events", ""), allow},
		"counts an event":                   {view, inRoot("patch", "", "events", ""), allow},
		"lists events":                      {view, inRoot("list", "", "events", ""), deny},
		"deletes an event":                  {view, inRoot("delete", "", "events", ""), deny},
		"deletes all events":                {view, inRoot("deletecollection", "", "events", ""), deny},
		"makes an event of the newer group": {view, inRoot("create", "events.k8s.io", "events", ""), deny},
	} {
		t.Run(name, func(t *testing.T) {
			got, reason, err := views{workload.Builtin()}.scopes(scope.With(t.Context(), c.scope), c.attrs)
			if err != nil || got != c.want {
				t.Errorf("decision %v (%s, %v), want %v", got, reason, err, c.want)
			}
		})
	}
}
