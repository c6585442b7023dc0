package attack

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"github.com/atoll-dev/atoll/pkg/scope"
)

// documents are about the server, or about what tenants define.
var documents = Attack{
	Name: "a syncer reads no metrics, profiles, dumps, discovery and schemas",
	Fence: func(ctx context.Context, w *World) error {
		ctx, err := w.placed(ctx)
		if err != nil {
			return err
		}
		shop, _ := scope.ClusterFrom(ctx)
		for _, c := range []string{shop.String(), "root", "*", "made-up"} {
			for _, prefix := range []string{"/targets/" + Mallory + "/clusters/" + c, "/clusters/" + c, "/targets/east/clusters/" + c} {
				for _, path := range serverDocuments {
					got, err := ask(ctx, w.mallory.config, http.MethodGet, prefix+path, "")
					if err != nil {
						return err
					}
					if got.code != http.StatusForbidden {
						return fmt.Errorf("%s is answered %d", prefix+path, got.code)
					}
				}
			}
		}
		return nil
	},
	Control: func(ctx context.Context, w *World) error {
		for _, path := range []string{"/metrics", "/openapi/v2", "/apis", "/debug/api_priority_and_fairness/dump_requests"} {
			if got, err := ask(ctx, w.admin.config, http.MethodGet, "/clusters/root"+path, ""); err != nil || got.code != http.StatusOK {
				return fmt.Errorf("%s is answered %d to an admin (%w)", path, got.code, err)
			}
		}
		return nil
	},
}

var serverDocuments = []string{
	"/metrics", "/metrics/slis", "/debug/pprof/", "/debug/pprof/heap", "/debug/flags/v", "/debug/api_priority_and_fairness/dump_requests",
	"/api", "/api/v1", "/apis", "/apis/apps/v1", "/apis/example.com/v1", "/openapi/v2", "/openapi/v3", "/openapi/v3/apis/apps/v1", "/version", "/logs/", "/statusz", "/flagz",
}

// names are told apart by any difference between two answers.
var names = Attack{
	Name: "a syncer cannot tell a logical cluster of which it has nothing from one that does not exist",
	Fence: func(ctx context.Context, w *World) error {
		ctx, err := w.cluster(ctx)
		if err != nil {
			return err
		}
		exists, _ := scope.ClusterFrom(ctx)
		for _, r := range probes {
			one, err := probe(ctx, w, r, exists.String())
			if err != nil {
				return err
			}
			other, err := probe(ctx, w, r, strings.Replace(exists.String(), "attacked", "imagined", 1))
			if err != nil {
				return err
			}
			if one != other {
				return fmt.Errorf("%s %s: %v or %v", r.method, r.path, one, other)
			}
		}
		return nil
	},
	Control: func(ctx context.Context, w *World) error {
		ctx, err := w.placed(ctx)
		if err != nil {
			return err
		}
		shop, _ := scope.ClusterFrom(ctx)
		one, err := probe(ctx, w, probes[0], shop.String())
		if err != nil {
			return err
		}
		other, err := probe(ctx, w, probes[0], "imagined")
		if err != nil {
			return err
		}
		if one == other {
			return errors.New("where something is placed looks like nowhere")
		}
		return nil
	},
}

type request struct{ method, path, body string }

// probes are requests in a logical cluster; the namespace "default" is in each.
var probes = func() []request {
	const meta = `"metadata":{"name":"a","namespace":"default","annotations":{"atoll.dev/uid":"1"}}`
	const pod = `{"apiVersion":"v1","kind":"Pod",` + meta + `,"spec":{"containers":[{"name":"c","image":"nginx"}]}}`
	const copied = `{"apiVersion":"placement.atoll.dev/v1alpha1","kind":"Copy",` + meta + `,"spec":{"physicalCluster":"mallory","object":{"version":"v1","resource":"pods","kind":"Pod","name":"a","uid":"1"}},"status":{"state":"Pending"}}`
	const event = `{"apiVersion":"v1","kind":"Event",` + meta + `,"involvedObject":{"namespace":"default"}}`
	const slice = `{"apiVersion":"discovery.k8s.io/v1","kind":"EndpointSlice",` + meta + `,"addressType":"IPv4","endpoints":[]}`
	const copies = "/apis/placement.atoll.dev/v1alpha1/namespaces/default/copies"
	return []request{
		{http.MethodGet, "/api/v1/namespaces", ""},
		{http.MethodGet, "/api/v1/namespaces/default", ""},
		{http.MethodGet, "/api/v1/pods", ""},
		{http.MethodGet, "/api/v1/pods?watch=true&timeoutSeconds=1", ""},
		{http.MethodGet, "/api/v1/namespaces/default/pods/a", ""},
		{http.MethodGet, "/api/v1/namespaces/default/secrets", ""},
		{http.MethodGet, "/api/v1/namespaces/kube-system/configmaps/kube-root-ca.crt", ""},
		{http.MethodGet, "/apis/apps/v1/deployments", ""},
		{http.MethodGet, "/apis/apps/v9/deployments", ""},
		{http.MethodGet, "/apis/example.com/v1/things", ""},
		{http.MethodGet, "/apis/rbac.authorization.k8s.io/v1/clusterroles", ""},
		{http.MethodGet, copies, ""},
		{http.MethodPost, copies, copied},
		{http.MethodPost, "/api/v1/namespaces/default/pods", pod},
		{http.MethodPost, "/api/v1/namespaces/kube-system/events", strings.ReplaceAll(event, "default", "kube-system")},
		{http.MethodPost, "/api/v1/namespaces/default/events", event},
		{http.MethodPost, "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", slice},
		{http.MethodPut, "/api/v1/namespaces/default/pods/a", pod},
		{http.MethodPatch, "/api/v1/namespaces/default/pods/a/status", `{"status":{"message":"a"}}`},
		{http.MethodDelete, "/api/v1/namespaces/default/pods/a", ""},
		{http.MethodPost, "/api/v1/namespaces/default/pods/a/binding", `{"apiVersion":"v1","kind":"Binding","metadata":{"name":"a"},"target":{"kind":"Node","name":"a"}}`},
		{http.MethodPost, "/api/v1/namespaces", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"a"}}`},
		{http.MethodGet, "/apis/fleet.atoll.dev/v1alpha1/orphans", ""},
	}
}()

var version = regexp.MustCompile(`"resourceVersion":"\d+"`)

// probe sends a request into a logical cluster; what has to differ is taken out of the answer.
func probe(ctx context.Context, w *World, r request, c string) (answer, error) {
	got, err := ask(ctx, w.mallory.config, r.method, "/targets/"+Mallory+"/clusters/"+c+r.path, r.body)
	got.body = strings.ReplaceAll(version.ReplaceAllString(got.body, ""), c, "NAME")
	return got, err
}
