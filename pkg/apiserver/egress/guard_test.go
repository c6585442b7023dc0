package egress

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
)

func newGuard(t *testing.T, o Options, own ...string) *Guard {
	t.Helper()
	g, err := NewGuard(o, own...)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// local answers "reached" on loopback.
func local(t *testing.T) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "reached") }))
	t.Cleanup(s.Close)
	return s
}

func get(t *testing.T, g *Guard, url string) (string, error) {
	t.Helper()
	client, err := rest.HTTPClientFor(g.Config())
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Get(url)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return string(body), err
}

func TestOneSentenceAnswersForWhatIsDeniedWhetherAnybodyListensOrNot(t *testing.T) {
	t.Parallel()
	listens, g := local(t), newGuard(t, Options{})
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	for _, address := range []string{strings.TrimPrefix(listens.URL, "http://"), gone.Addr().String(), "169.254.169.254:80", "[fe80::1]:80"} {
		_, err := get(t, g, "http://"+address)
		want := `Get "http://` + address + `": the control plane does not call ` + address + `: its administrator may allow the address with --tenant-egress-allow`
		if err == nil || err.Error() != want {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// A name is judged by the address that is connected to; the sentence has the name.
func TestANameThatResolvesToLoopbackIsDenied(t *testing.T) {
	t.Parallel()
	_, port, err := net.SplitHostPort(strings.TrimPrefix(local(t).URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = get(t, newGuard(t, Options{}), "http://localhost:"+port)
	var denied *DeniedError
	if !errors.As(err, &denied) || denied.Address != "localhost:"+port {
		t.Errorf("calling localhost: %v", err)
	}
}

func TestTheAdminOpensWhatIsClosedButNotTheServersOwnEnds(t *testing.T) {
	t.Parallel()
	s, loopback := local(t), Options{Allow: []string{"127.0.0.0/8", "::1"}}
	if body, err := get(t, newGuard(t, loopback), s.URL); body != "reached" || err != nil {
		t.Errorf("an allowed address: %q, %v", body, err)
	}
	for _, own := range []string{s.URL, strings.TrimPrefix(s.URL, "http://"), strings.Replace(s.URL, "127.0.0.1", "localhost", 1)} {
		var denied *DeniedError
		if _, err := get(t, newGuard(t, loopback, own), s.URL); !errors.As(err, &denied) {
			t.Errorf("the server's own end %s: %v", own, err)
		}
	}
}

func TestARedirectIsNotFollowed(t *testing.T) {
	t.Parallel()
	out := httptest.NewServer(http.RedirectHandler(local(t).URL, http.StatusTemporaryRedirect))
	t.Cleanup(out.Close)
	if body, err := get(t, newGuard(t, Options{Allow: []string{"127.0.0.0/8"}}), out.URL); err == nil || !strings.Contains(err.Error(), "redirects elsewhere") {
		t.Errorf("got %q, %v", body, err)
	}
}

// The environment of the server may name a proxy, which would connect to anything.
func TestNoProxyConnectsInPlaceOfTheGuard(t *testing.T) {
	t.Parallel()
	g := newGuard(t, Options{})
	request := httptest.NewRequest(http.MethodGet, "https://example.com", nil)
	// Libraries put the proxy of the environment where there is none.
	for _, proxy := range []func(*http.Request) (*url.URL, error){g.Config().Proxy, utilnet.SetTransportDefaults(g.Transport()).Proxy} {
		if url, err := proxy(request); url != nil || err != nil {
			t.Errorf("calls go through the proxy %v, %v", url, err)
		}
	}
}

func TestNamesThatDoNotExistRevealNothingOfTheServersAsked(t *testing.T) {
	t.Parallel()
	_, err := newGuard(t, Options{}).DialContext(t.Context(), "tcp", "nowhere.invalid:443")
	if err == nil || strings.Count(err.Error(), ":") > 2 {
		t.Errorf("a name that does not exist: %v", err)
	}
}

func TestWebhooksGetNoCredentials(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"kubernetes.default.svc:443", "example.com:443"} {
		config, err := newGuard(t, Options{}).Webhooks(Services{})(nil).ClientConfigFor(name)
		if err != nil {
			t.Fatal(err)
		}
		if config.Dial == nil || config.Transport != nil || config.BearerToken+config.BearerTokenFile+config.Username+config.CertFile != "" {
			t.Errorf("%s is called with %v", name, config)
		}
	}
}
