package e2e

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// proxy passes requests on to an API server with a credential of its own, and what a test puts between.
type proxy struct {
	// kubeconfig leads to it.
	kubeconfig string
	// cut ends all connections to it.
	cut     func()
	between atomic.Pointer[func(http.ResponseWriter, *http.Request) (answered bool)]
}

// startProxy runs a proxy before the server of a kubeconfig until the test ends.
func startProxy(t *testing.T, kubeconfig string) *proxy {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.NextProtos = []string{"http/1.1"} // for what is upgraded
	transport, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	to, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{kubeconfig: filepath.Join(t.TempDir(), "kubeconfig")}
	pass := &httputil.ReverseProxy{Transport: transport, FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.Out.Header.Del("Authorization") // it has its own
	}}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if between := p.between.Load(); between == nil || !(*between)(w, r) {
			pass.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(func() {
		server.CloseClientConnections() // watches do not end by themselves
		server.Close()
	})
	p.cut = server.CloseClientConnections
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"c": {Server: strings.TrimSuffix(server.URL, "/"), CertificateAuthorityData: ca}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"u": {Token: "of-the-proxy"}},
		Contexts:       map[string]*clientcmdapi.Context{"x": {Cluster: "c", AuthInfo: "u"}},
		CurrentContext: "x",
	}, p.kubeconfig); err != nil {
		t.Fatal(err)
	}
	return p
}

// put has something done with each request before it is passed on, unless that answers; nil: nothing.
func (p *proxy) put(between func(http.ResponseWriter, *http.Request) (answered bool)) {
	if between == nil {
		p.between.Store(nil)
		return
	}
	p.between.Store(&between)
}
