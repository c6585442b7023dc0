//go:build linux

package lab

import (
	"context"
	"fmt"
	"net"
	"sync"

	"github.com/miekg/dns"
)

// OutsideName is the one name that the Resolver knows, OutsideAddress what it leads to.
const (
	OutsideName    = "www.example.com"
	OutsideAddress = "192.0.2.7"
)

// Resolver is that of the nodes: it knows one name, and what it was asked for.
type Resolver struct {
	mu    sync.Mutex
	asked []string
}

// Asked is every name that it was asked for until now.
func (r *Resolver) Asked() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.asked...)
}

// serve answers at port 53 of an address until ctx ends.
func (r *Resolver) serve(ctx context.Context, address string) error {
	at := net.JoinHostPort(address, "53")
	packets, err := net.ListenPacket("udp", at)
	if err != nil {
		return fmt.Errorf("starting a resolver: %w", err)
	}
	connections, err := net.Listen("tcp", at)
	if err != nil {
		return fmt.Errorf("starting a resolver: %w", err)
	}
	for _, server := range []*dns.Server{{PacketConn: packets, Handler: r}, {Listener: connections, Handler: r}} {
		go func() { _ = server.ActivateAndServe() }()
	}
	context.AfterFunc(ctx, func() { _, _ = packets.Close(), connections.Close() })
	return nil
}

// ServeDNS implements dns.Handler.
func (r *Resolver) ServeDNS(w dns.ResponseWriter, q *dns.Msg) {
	name := q.Question[0].Name
	r.mu.Lock()
	r.asked = append(r.asked, name)
	r.mu.Unlock()
	m := new(dns.Msg).SetReply(q)
	switch {
	case name != OutsideName+".":
		m.Rcode = dns.RcodeNameError
	case q.Question[0].Qtype == dns.TypeA:
		m.Answer = []dns.RR{&dns.A{Hdr: dns.RR_Header{Name: name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 60}, A: net.ParseIP(OutsideAddress)}}
	}
	_ = w.WriteMsg(m)
}
