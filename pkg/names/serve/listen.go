package serve

import (
	"context"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/net/netutil"
	"k8s.io/klog/v2"

	"github.com/atoll-dev/atoll/pkg/names"
)

const (
	// connections of one logical cluster at a time, questions over one, and how long it
	// may be idle.
	connections, questions = 64, 128
	idleTimeout            = 8 * time.Second
	readTimeout            = 2 * time.Second
)

// listeners are the open ports.
type listeners struct {
	address string
	zones   *zones
	resolve *resolver

	mu   sync.Mutex
	open map[int]*listener
}

// listener is one port, for both protocols.
type listener struct {
	tenant   names.Tenant
	udp, tcp *dns.Server
	running  sync.WaitGroup
}

// set opens the ports that are there now, and closes others. A port of another logical
// cluster than before is a new one: connections to it are closed.
func (l *listeners) set(ctx context.Context, ports map[int]names.Tenant) (failed int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for port, before := range l.open {
		if now, ok := ports[port]; !ok || now != before.tenant {
			before.close()
			delete(l.open, port)
		}
	}
	for port, tenant := range ports {
		if l.open[port] != nil {
			continue
		}
		opened, err := l.listen(ctx, port, tenant)
		if err != nil {
			klog.FromContext(ctx).Error(err, "Listening failed, will try again", "port", port, "cluster", tenant.Cluster)
			failed++
			continue
		}
		l.open[port] = opened
	}
	return failed
}

func (l *listeners) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for port, o := range l.open {
		o.close()
		delete(l.open, port)
	}
}

func (l *listeners) listen(ctx context.Context, port int, tenant names.Tenant) (*listener, error) {
	address := net.JoinHostPort(l.address, strconv.Itoa(port))
	var config net.ListenConfig
	packets, err := config.ListenPacket(ctx, "udp", address)
	if err != nil {
		return nil, err
	}
	streams, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		_ = packets.Close()
		return nil, err
	}
	handler := func(tcp bool) dns.HandlerFunc {
		return func(w dns.ResponseWriter, query *dns.Msg) { l.handle(ctx, tenant, w, query, tcp) }
	}
	o := &listener{tenant: tenant}
	o.udp = &dns.Server{PacketConn: packets, Handler: handler(false), UDPSize: dns.DefaultMsgSize, ReadTimeout: readTimeout, MsgAcceptFunc: accept}
	o.tcp = &dns.Server{
		Listener: netutil.LimitListener(streams, connections), Handler: handler(true), ReadTimeout: readTimeout, WriteTimeout: readTimeout,
		IdleTimeout: func() time.Duration { return idleTimeout }, MaxTCPQueries: questions, MsgAcceptFunc: accept,
	}
	for _, s := range []*dns.Server{o.udp, o.tcp} {
		started := make(chan struct{})
		s.NotifyStartedFunc = func() { close(started) }
		o.running.Go(func() {
			if err := s.ActivateAndServe(); err != nil {
				klog.FromContext(ctx).V(2).Info("A port was closed", "port", port, "err", err)
			}
		})
		<-started // else it cannot be shut down
	}
	return o, nil
}

// accept looks at the header alone: what is an answer is dropped, so that two servers do
// not answer each other for ever.
func accept(h dns.Header) dns.MsgAcceptAction {
	const response = 1 << 15
	if h.Bits&response != 0 {
		return dns.MsgIgnore
	}
	if h.Qdcount > 1 || h.Ancount > 1 || h.Nscount > 1 || h.Arcount > 2 {
		return dns.MsgReject
	}
	return dns.MsgAccept
}

func (o *listener) close() {
	for _, s := range []*dns.Server{o.udp, o.tcp} {
		_ = s.Shutdown() // waits for answers that are on their way, which a question upstream bounds
	}
	o.running.Wait()
}

// handle answers one message.
func (l *listeners) handle(ctx context.Context, tenant names.Tenant, w dns.ResponseWriter, query *dns.Msg, tcp bool) {
	if code, ok := names.Check(query); !ok {
		_ = w.WriteMsg(names.Refuse(query, code, tcp)) // who asked may have gone
		return
	}
	question := query.Question[0]
	a := l.zones.answer(tenant, question, query.Id)
	var upstream *dns.Msg
	if a.Forward != "" {
		var err error
		if upstream, err = l.resolve.ask(ctx, tenant, a.Forward, question.Qtype); err != nil {
			klog.FromContext(ctx).V(4).Info("Nobody upstream answered", "cluster", tenant.Cluster, "err", err)
		}
	}
	m := names.Reply(query, a, upstream, tcp)
	if _, err := m.Pack(); err != nil { // an answer that is none, of a name that is none
		m = names.Refuse(query, dns.RcodeServerFailure, tcp)
	}
	_ = w.WriteMsg(m)
}
