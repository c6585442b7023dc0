package serve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/miekg/dns"

	"github.com/atoll-dev/atoll/pkg/names"
)

const (
	// upstreamTimeout is for one question to one server, forwardTimeout for all of them.
	upstreamTimeout, forwardTimeout = 2 * time.Second, 5 * time.Second
	// maxUpstreams are asked, one after the other, as resolvers do.
	maxUpstreams = 3
	// inFlight bounds the questions that wait for upstream, tenantInFlight those of one
	// logical cluster.
	inFlight, tenantInFlight = 2048, 128
)

// resolver asks a resolver upstream.
type resolver struct {
	servers []string
	slots   chan struct{}

	mu      sync.Mutex
	tenants map[names.Tenant]int
}

// newResolver asks servers, each HOST:PORT.
func newResolver(servers []string) *resolver {
	return &resolver{servers: servers[:min(len(servers), maxUpstreams)], slots: make(chan struct{}, inFlight), tenants: map[names.Tenant]int{}}
}

// Upstreams reads addresses, or if there are none what a file says as /etc/resolv.conf does.
func Upstreams(addresses []string, file string) ([]string, error) {
	if len(addresses) == 0 {
		config, err := dns.ClientConfigFromFile(file)
		if err != nil {
			return nil, fmt.Errorf("reading the resolver to ask: %w", err)
		}
		for _, server := range config.Servers {
			addresses = append(addresses, net.JoinHostPort(server, config.Port))
		}
	}
	if len(addresses) == 0 {
		return nil, fmt.Errorf("%s names no resolver to ask: name one with --upstream", file)
	}
	for i, a := range addresses {
		if _, err := netip.ParseAddr(strings.Trim(a, "[]")); err == nil {
			a = net.JoinHostPort(strings.Trim(a, "[]"), "53")
		}
		if _, err := netip.ParseAddrPort(a); err != nil {
			return nil, fmt.Errorf("the resolver %q to ask is no address: %w", a, err)
		}
		addresses[i] = a
	}
	return addresses, nil
}

var errBusy = errors.New("as many questions as may wait for upstream do")

// ask asks for a name, as often as there are servers. What they say is believed if it is an
// answer to this question.
func (r *resolver) ask(ctx context.Context, t names.Tenant, name string, qtype uint16) (*dns.Msg, error) {
	if !r.enter(t) {
		return nil, errBusy
	}
	defer r.leave(t)
	ctx, cancel := context.WithTimeout(ctx, forwardTimeout)
	defer cancel()
	query := new(dns.Msg)
	query.SetQuestion(name, qtype)
	query.SetEdns0(1232, false)
	var errs []error
	for _, server := range r.servers {
		query.Id = dns.Id()
		answer, err := exchange(ctx, query, server)
		if err == nil {
			return answer, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

// exchange asks one server, over TCP what does not fit otherwise. Each question has a socket
// and so a port of its own, which who forges answers has to guess.
func exchange(ctx context.Context, query *dns.Msg, server string) (*dns.Msg, error) {
	for _, network := range []string{"udp", "tcp"} {
		client := &dns.Client{Net: network, Timeout: upstreamTimeout}
		answer, _, err := client.ExchangeContext(ctx, query, server)
		switch {
		case err != nil:
			return nil, err
		case !answer.Response || len(answer.Question) != 1 || !strings.EqualFold(answer.Question[0].Name, query.Question[0].Name) || answer.Question[0].Qtype != query.Question[0].Qtype:
			return nil, errors.New("the answer is not to the question")
		case answer.Rcode == dns.RcodeServerFailure || answer.Rcode == dns.RcodeRefused:
			return nil, fmt.Errorf("the resolver says %s", dns.RcodeToString[answer.Rcode])
		case answer.Truncated && network == "udp":
			continue
		}
		answer.Answer = slices.DeleteFunc(answer.Answer, func(rr dns.RR) bool { return rr.Header().Rrtype == dns.TypeOPT })
		return answer, nil
	}
	return nil, errors.New("the answer is cut even over TCP")
}

// enter counts a question in, if it may wait.
func (r *resolver) enter(t names.Tenant) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.tenants[t] >= tenantInFlight {
		return false
	}
	select {
	case r.slots <- struct{}{}:
		r.tenants[t]++
		return true
	default:
		return false
	}
}

func (r *resolver) leave(t names.Tenant) {
	<-r.slots
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.tenants[t]--; r.tenants[t] == 0 {
		delete(r.tenants, t)
	}
}
