package names

import "github.com/miekg/dns"

const (
	// udpSize is the largest answer over UDP: what passes every network in one piece.
	udpSize = 1232
	// plainSize is for who does not say how much it takes.
	plainSize = dns.MinMsgSize
)

// Check says whether a message is a question that can be answered at all. The code is
// for who asks otherwise.
func Check(query *dns.Msg) (code int, ok bool) {
	switch {
	case query.Opcode != dns.OpcodeQuery:
		return dns.RcodeNotImplemented, false
	case len(query.Question) != 1 || query.Response:
		return dns.RcodeFormatError, false
	}
	if opt := query.IsEdns0(); opt != nil && opt.Version() != 0 {
		return dns.RcodeBadVers, false
	}
	return dns.RcodeSuccess, true
}

// Reply is the message that answers a query: upstream is what a resolver said to Forward,
// nil if it was not asked or said nothing.
func Reply(query *dns.Msg, a Answer, upstream *dns.Msg, tcp bool) *dns.Msg {
	m := new(dns.Msg)
	m.SetReply(query)
	m.RecursionAvailable, m.Compress = true, true
	m.Rcode, m.Answer, m.Extra = a.Code, a.Records, a.Extra
	switch {
	case a.Forward != "" && upstream == nil:
		m.Rcode, m.Answer = dns.RcodeServerFailure, nil
	case a.Forward != "":
		m.Rcode = upstream.Rcode
		m.Answer = append(m.Answer[:len(m.Answer):len(m.Answer)], upstream.Answer...)
		m.Ns = negative(upstream)
	case a.Authority != "":
		m.Authoritative = true
		if last := len(a.Records); last == 0 || a.Code != dns.RcodeSuccess || a.Records[last-1].Header().Rrtype == dns.TypeCNAME && query.Question[0].Qtype != dns.TypeCNAME {
			m.Ns = []dns.RR{soa(a.Authority)}
		}
	}
	return Fit(query, m, tcp)
}

// Refuse is the message that answers a query with a code and nothing else.
func Refuse(query *dns.Msg, code int, tcp bool) *dns.Msg {
	m := new(dns.Msg)
	m.SetRcode(query, code)
	return Fit(query, m, tcp)
}

// Fit makes a message fit what who asks takes; what does not fit over UDP is cut, and
// asked again over TCP.
func Fit(query, m *dns.Msg, tcp bool) *dns.Msg {
	size := plainSize
	if opt := query.IsEdns0(); opt != nil {
		size = min(max(plainSize, int(opt.UDPSize())), udpSize)
		m.SetEdns0(udpSize, opt.Do())
	}
	if tcp {
		size = dns.MaxMsgSize
	}
	m.Truncate(size)
	return m
}

// negative is what of the authority section says how long a negative answer is good.
func negative(upstream *dns.Msg) []dns.RR {
	for _, rr := range upstream.Ns {
		if rr.Header().Rrtype == dns.TypeSOA {
			return []dns.RR{rr}
		}
	}
	return nil
}
