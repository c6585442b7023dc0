package auth

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
)

func TestIdentityProvidersDoNotNameTheSystem(t *testing.T) {
	for want, users := range map[bool][]user.DefaultInfo{
		true: {
			{Name: "system:apiserver"}, {Name: "system:atoll:syncer:east"}, {Name: "system:serviceaccount:default:default"},
			{Name: "ann", Groups: []string{"system:atoll:syncers"}}, {Name: "ann", Groups: []string{"ops", "system:serviceaccounts"}},
		},
		false: {{Name: "ann"}, {Name: "ann", Groups: []string{"ops"}}, {Name: "ann", Groups: []string{user.SystemPrivilegedGroup}}},
	} {
		for _, u := range users {
			if got := isReserved(&u); got != want {
				t.Errorf("%+v: reserved %v, want %v", u, got, want)
			}
		}
	}
}

func TestTheConfigurationOfAuthenticationIsCheckedWhenItIsRead(t *testing.T) {
	const head = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\n"
	provider := func(url string) string {
		return head + "jwt:\n- issuer: {url: '" + url + "', audiences: [a]}\n  claimMappings: {username: {claim: sub, prefix: ''}}\n"
	}
	for name, tc := range map[string]struct{ content, problem string }{
		"an identity provider":     {provider("https://id.example.org"), ""},
		"nobody may be anonymous":  {head + "anonymous: {enabled: false}\n", ""},
		"an issuer of ours":        {provider("https://atoll.dev/clusters/shop"), "is that of service accounts"},
		"the root of our issuers":  {provider("https://atoll.dev"), "issuer.url"},
		"a field that is not one":  {head + "jwts: []\n", "unknown field"},
		"something else entirely":  {"apiVersion: v1\nkind: ConfigMap\n", "no kind"},
		"an issuer without a mode": {provider("http://id.example.org"), "https"},
	} {
		t.Run(name, func(t *testing.T) {
			o := NewOptions()
			o.ConfigFile = filepath.Join(t.TempDir(), "c.yaml")
			if err := os.WriteFile(o.ConfigFile, []byte(tc.content), 0o600); err != nil {
				t.Fatal(err)
			}
			_, _, err := o.load()
			if (err == nil) != (tc.problem == "") || err != nil && !strings.Contains(err.Error(), tc.problem) {
				t.Errorf("got %v, want %q", err, tc.problem)
			}
		})
	}
}
