package auth

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	jose "gopkg.in/go-jose/go-jose.v2"
	"gopkg.in/go-jose/go-jose.v2/jwt"
)

// identityProvider is as much of OpenID Connect as the server asks for.
type identityProvider struct {
	server *httptest.Server
	key    *ecdsa.PrivateKey
}

func newProvider(t *testing.T) *identityProvider {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	p := &identityProvider{key: key}
	p.server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		switch req.URL.Path {
		case "/.well-known/openid-configuration":
			_ = json.NewEncoder(w).Encode(map[string]any{"issuer": p.server.URL, "jwks_uri": p.server.URL + "/keys"})
		case "/keys":
			_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: &key.PublicKey, KeyID: "1", Algorithm: "ES256", Use: "sig"}}})
		default:
			http.NotFound(w, req)
		}
	}))
	return p
}

// config is an AuthenticationConfiguration that trusts the provider.
func (p *identityProvider) config() string {
	ca := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.server.Certificate().Raw}))
	return fmt.Sprintf(`apiVersion: apiserver.config.k8s.io/v1
kind: AuthenticationConfiguration
anonymous:
  enabled: true
  conditions:
  - path: /livez
  - path: /readyz
  - path: /healthz
jwt:
- issuer:
    url: %s
    audiences: [atoll]
    certificateAuthority: |
      %s
  claimMappings:
    username:
      claim: sub
      prefix: ""
    groups:
      claim: groups
      prefix: ""
`, p.server.URL, strings.ReplaceAll(strings.TrimSpace(ca), "\n", "\n      "))
}

// token is one that the provider gives.
func (p *identityProvider) token(t *testing.T, name string, expires time.Time, groups ...string) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: p.key, KeyID: "1"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	token, err := jwt.Signed(signer).Claims(map[string]any{
		"iss": p.server.URL, "aud": "atoll", "sub": name, "groups": groups, "exp": expires.Unix(), "iat": time.Now().Add(-time.Hour).Unix(),
	}).CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}
