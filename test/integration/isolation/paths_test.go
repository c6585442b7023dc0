package isolation

import (
	"net/http"
	"strings"
	"testing"
)

// elsewhere are the paths by which mallory tries to leave her logical cluster.
var elsewhere = []string{
	"/clusters/victim/api/v1/secrets",
	"/clusters/victim/api/v1/namespaces/default/secrets/s",
	"/clusters/victim/api/v1/namespaces/default/configmaps?watch=1&timeoutSeconds=1",
	"/clusters/victim/apis", "/clusters/victim/api", "/clusters/victim/openapi/v2", "/clusters/victim/openapi/v3", "/clusters/victim/openid/v1/jwks",
	"/clusters/root/api/v1/namespaces/default/secrets/s",
	"/clusters/root/apis/tenancy.atoll.dev/v1alpha1/logicalclusters",
	"/clusters/root/apis/fleet.atoll.dev/v1alpha1/physicalclusters",
	"/clusters/*/api/v1/secrets", "/clusters/%2a/api/v1/secrets", "/clusters/*/apis", "/clusters/*/api/v1/secrets?watch=1&timeoutSeconds=1",
	"/clusters/*/api/v1/namespaces/default/secrets/s",
	"/clusters/%76ictim/api/v1/secrets", "/clusters/victim%2fapi/v1/secrets", "/clusters/VICTIM/api/v1/secrets", "/clusters/Victim/api/v1/secrets",
	"/clusters/victim%00/api/v1/secrets", "/clusters/victim%20/api/v1/secrets", "/clusters/victim;/api/v1/secrets", "/clusters/victim./api/v1/secrets",
	"/clusters/evil/../victim/api/v1/secrets", "/clusters/evil/..%2fvictim/api/v1/secrets", "/clusters/evil%2f..%2fvictim/api/v1/secrets",
	"/clusters/evil/%2e%2e/victim/api/v1/secrets", "/clusters/./victim/api/v1/secrets", "/clusters//victim/api/v1/secrets", "//clusters/victim/api/v1/secrets",
	"/clusters/evil/clusters/victim/api/v1/secrets", "/clusters/evil/clusters/*/api/v1/secrets", "/clusters/evil/targets/east/clusters/victim/api/v1/secrets",
	"/clusters/system:admin/api/v1/secrets", "/clusters/system:masters/api/v1/secrets", "/clusters/_orphan/api/v1/secrets", "/clusters/../api/v1/secrets",
	"/targets/east/clusters/*/api/v1/secrets", "/targets/east/clusters/victim/api/v1/namespaces/default/secrets/s", "/targets/east/clusters/evil/api/v1/secrets",
	"/targets/*/clusters/victim/api/v1/secrets", "/targets/../clusters/victim/api/v1/secrets", "/targets//clusters/victim/api/v1/secrets",
	"/targets/east/clusters/root/apis/fleet.atoll.dev/v1alpha1/physicalclusters",
	"/clusters/evil/api/v1/namespaces/..%2f..%2fvictim%2fdefault/secrets", "/clusters/evil/api/v1/namespaces/../../victim/secrets",
	"/clusters/evil/api/v1/namespaces/default/secrets/..%2f..%2f..%2fvictim%2fdefault%2fs", "/clusters/evil/api/v1/namespaces/default%2f..%2f..%2fvictim%2fdefault/secrets/s",
	"/clusters/evil/api/v1/namespaces/../secrets", "/clusters/evil/api/v1/namespaces/%2e%2e/secrets/s", "/clusters/evil/api/v1/namespaces/./secrets",
	"/clusters/evil/api/v1/namespaces/victim%2fdefault/secrets/s", "/clusters/evil/api/v1/namespaces/*/secrets/s", "/clusters/evil/api/v1/namespaces/%00/secrets/s",
	"/clusters/evil/apis/rbac.authorization.k8s.io/v1/clusterroles/..%2f..%2fvictim%2fx",
	"/clusters/evil/metrics", "/clusters/evil/metrics/slis", "/clusters/evil/debug/pprof/heap?debug=1", "/clusters/evil/debug/flags/v", "/clusters/evil/configz", "/clusters/evil/statusz", "/clusters/evil/flagz",
	"/clusters/evil/debug/api_priority_and_fairness/dump_requests", "/clusters/evil/logs/",
	"/metrics", "/api/v1/secrets", "/apis", "/debug/pprof/heap", "/readyz/../metrics", "/livez/..%2fmetrics", "/version/../clusters/victim/api/v1/secrets",
}

func TestNoPathLeadsElsewhere(t *testing.T) {
	w := shared(t)
	for _, path := range elsewhere {
		for who, token := range map[string]string{"mallory": malloryToken, "her robot": w.robotToken, "nobody": ""} {
			status, reply := w.raw(t, http.MethodGet, path, token, "")
			inRobots := who == "her robot" && !strings.HasPrefix(path, "/clusters/") && !strings.HasPrefix(path, "/targets/") // the token says which
			if leaks(reply) || status/100 == 2 && !inRobots || status >= 500 {
				t.Errorf("%s, GET %s: %d %.200s", who, path, status, reply)
			}
		}
	}
}

func TestNobodyLearnsWhichLogicalClustersExist(t *testing.T) {
	w := shared(t)
	for _, path := range []string{"", "/", "/version", "/livez", "/api", "/apis", "/api/v1/secrets", "/apis/no.such.group/v1/things", "/openapi/v3", "/metrics"} {
		for who, token := range map[string]string{"mallory": malloryToken, "her robot": w.robotToken, "nobody": ""} {
			status, reply := w.raw(t, http.MethodGet, "/clusters/victim"+path, token, "")
			other, otherReply := w.raw(t, http.MethodGet, "/clusters/nowhere"+path, token, "")
			if status != other || strings.ReplaceAll(reply, "victim", "nowhere") != otherReply {
				t.Errorf("%s, GET %s: %d %.200s; of one that does not exist: %d %.200s", who, path, status, reply, other, otherReply)
			}
		}
	}
}

func TestNoWriteGoesElsewhere(t *testing.T) {
	w := shared(t)
	for _, path := range elsewhere {
		for _, method := range []string{http.MethodDelete, http.MethodPost, http.MethodPatch, http.MethodPut} {
			body := `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s","namespace":"default","annotations":{"kcp.io/cluster":"victim"}},"stringData":{"password":"mine"}}`
			status, reply := w.raw(t, method, strings.ReplaceAll(path, "watch=1", ""), malloryToken, body)
			if leaks(reply) || status/100 == 2 || status >= 500 {
				t.Errorf("%s %s: %d %.200s", method, path, status, reply)
			}
		}
	}
	w.stays(t)
}

func FuzzNoPathLeadsElsewhere(f *testing.F) {
	for _, path := range elsewhere {
		f.Add(path)
	}
	w := shared(f)
	f.Fuzz(func(t *testing.T, path string) {
		if !strings.HasPrefix(path, "/") || strings.Contains(path, "watch") {
			return
		}
		for _, token := range []string{malloryToken, w.robotToken} {
			if status, reply := w.raw(t, http.MethodGet, path, token, ""); leaks(reply) || status >= 500 && status != http.StatusGatewayTimeout {
				t.Errorf("GET %q: %d %.200s", path, status, reply)
			}
		}
	})
}
