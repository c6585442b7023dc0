package apiserver

import (
	"net/http"
	"testing"

	"k8s.io/client-go/rest"
)

// The server talks to itself inside the process, with a token of its own: nothing
// that comes from outside passes for that.
func TestNobodyOutsidePassesForTheServerItself(t *testing.T) {
	s := shared(t)
	config := rest.AnonymousClientConfig(s.Config)
	transport, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: transport}
	for name, tc := range map[string]struct {
		header http.Header
		want   int
	}{
		"nothing":                {nil, http.StatusForbidden},
		"a token of its own":     {http.Header{"Authorization": {"Bearer 0b5f0d8c-5a3e-4f5d-8d2b-2f4d6c1c9b1a"}}, http.StatusUnauthorized},
		"an empty token":         {http.Header{"Authorization": {"Bearer "}}, http.StatusForbidden},
		"the name in the header": {http.Header{"X-Remote-User": {"system:apiserver"}, "X-Remote-Group": {"system:masters"}}, http.StatusForbidden},
		"impersonation":          {http.Header{"Impersonate-User": {"system:apiserver"}, "Impersonate-Group": {"system:masters"}}, http.StatusForbidden},
	} {
		t.Run(name, func(t *testing.T) {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, config.Host+"/clusters/root/api/v1/secrets", nil)
			if err != nil {
				t.Fatal(err)
			}
			for k, v := range tc.header {
				req.Header[k] = v
			}
			resp, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if resp.StatusCode != tc.want {
				t.Errorf("answered with %s, want %d", resp.Status, tc.want)
			}
		})
	}
}
