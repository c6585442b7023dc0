package tunnel

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"k8s.io/streaming/pkg/httpstream"

	"github.com/atoll-dev/atoll/pkg/reach"
	"github.com/atoll-dev/atoll/pkg/scope"
)

const (
	// PeerPath is below which a server asks another one for a stream, by the name of the target.
	PeerPath = "/tunnels/"
	// PeerUID is the parameter that says which one of that name is meant.
	PeerUID = "uid"
	// streamProtocol is what it asks to upgrade to.
	streamProtocol = "atoll-stream"
	// peerName is what the serving certificate of every server is for.
	peerName = "kubernetes.default.svc"
	// peerTimeout is how long one server takes to answer.
	peerTimeout = 2 * time.Second
)

// Peers opens streams through the tunnels of other servers.
type Peers struct {
	// Addresses are those of the other servers, as host:port.
	Addresses func() []string
	// Roots verify them.
	Roots *x509.CertPool
	// Certificate makes one for this server.
	Certificate func() (tls.Certificate, error)
	// name is what their certificates have to be for, peerName if it is empty.
	name string
}

// Dial opens a stream to the agent of target, by name and UID, through the first server that has a
// tunnel. The error is ErrNone if no server that answers has one.
func (p *Peers) Dial(ctx context.Context, target, uid string) (net.Conn, error) {
	addresses := p.Addresses()
	if len(addresses) == 0 {
		return nil, ErrNone
	}
	certificate, err := p.Certificate()
	if err != nil {
		return nil, err
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: p.Roots, ServerName: cmp.Or(p.name, peerName), NextProtos: []string{"http/1.1"}, Certificates: []tls.Certificate{certificate}}
	for _, address := range addresses {
		conn, err := through(ctx, address, PeerPath+target+"?"+url.Values{PeerUID: {uid}}.Encode(), config)
		if err == nil || ctx.Err() != nil {
			return conn, err
		}
	}
	return nil, ErrNone
}

// through asks one server.
func through(ctx context.Context, address, path string, config *tls.Config) (net.Conn, error) {
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, end)
	late := time.AfterFunc(peerTimeout, end)
	transport := &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}
	req, err := http.NewRequestWithContext(life, http.MethodGet, "https://"+address+scope.Scope{Cluster: scope.Root}.Path()+path, nil)
	if err != nil {
		end()
		return nil, fmt.Errorf("asking another server for a stream: %w", err)
	}
	req.Header = http.Header{"Connection": {"Upgrade"}, "Upgrade": {streamProtocol}, "User-Agent": {"atoll"}}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		end()
		return nil, fmt.Errorf("asking another server for a stream: %w", err)
	}
	stream, ok := resp.Body.(io.ReadWriteCloser)
	if inTime := late.Stop(); !stop() || !inTime || !ok || resp.StatusCode != http.StatusSwitchingProtocols {
		_ = resp.Body.Close()
		end()
		return nil, errors.Join(fmt.Errorf("another server answers %d", resp.StatusCode), ctx.Err())
	}
	return wrap(stream, end), nil
}

// Give gives another server, which who calls has verified to be one, a stream to the agent of
// target. It ends with the connection of the request, or with the tunnel.
func (p *Pool) Give(w http.ResponseWriter, req *http.Request, target string) {
	if !httpstream.IsUpgradeRequest(req) || req.Header.Get("Upgrade") != streamProtocol {
		http.Error(w, "Upgrade request required", http.StatusBadRequest)
		return
	}
	stream, err := p.Dial(req.Context(), target)
	if err != nil {
		http.Error(w, "no stream: "+err.Error(), http.StatusServiceUnavailable)
		return
	}
	conn, ok := takeOver(w, streamProtocol)
	if !ok {
		_ = stream.Close()
		return
	}
	go reach.Pipe(context.WithoutCancel(req.Context()), conn, stream) // a request has a deadline, a stream has none
}

// TargetOf is the target that a path of a server asks for; ok is false if it is no such path.
func TargetOf(path string) (target string, ok bool) {
	target, ok = strings.CutPrefix(path, PeerPath)
	return target, ok && target != "" && !strings.Contains(target, "/")
}
