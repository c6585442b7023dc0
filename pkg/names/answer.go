package names

import (
	"net/netip"
	"strings"

	"github.com/miekg/dns"
)

const (
	// ttl is how long an answer may be believed, in seconds: endpoints come and go. It is
	// that of CoreDNS.
	ttl = 5
	// maxChase is how many canonical names are followed.
	maxChase = 8
	// maxRecords bounds an answer, and maxExtra what is added to it.
	maxRecords, maxExtra = 1000, 50
)

// Answer is what a logical cluster says to a question.
type Answer struct {
	Code    int
	Records []dns.RR
	Extra   []dns.RR
	// Authority is the zone that says so, and that says of a negative answer how long it
	// is good; empty if others have to be asked.
	Authority string
	// Forward is the name that a resolver upstream has to be asked for, and whose records
	// go after these; empty if none has.
	Forward string
}

// Policy is what a physical cluster adds to the rules of this package.
type Policy struct {
	// Internal are domains that nobody is asked for: those of the physical cluster, if it
	// is not cluster.local as well.
	Internal []string
}

// Answer answers a question.
//
//	the name is                                  answer
//	of the zone, and there                       its records of the type; none of the type is no error
//	of the zone, and not there                   does not exist; but the host of the server, whole, is forwarded
//	under an internal domain                     does not exist; the same exception
//	a canonical name (ExternalName, the server)  that, and what this table says of where it leads, 8 times
//	an address that the zone has a name for      the name
//	another address of a private network         does not exist
//	anything else                                forwarded
//
// Transfers of zones, and questions for everything, are refused. id differs from question
// to question: the order of addresses does, too, so that who takes the first shares the load.
func (z *Zone) Answer(q dns.Question, id uint16, policy Policy) Answer {
	switch {
	case q.Qclass != dns.ClassINET:
		return Answer{Code: dns.RcodeRefused}
	case q.Qtype == dns.TypeAXFR, q.Qtype == dns.TypeIXFR, q.Qtype == dns.TypeANY, q.Qtype == dns.TypeMAILA, q.Qtype == dns.TypeMAILB:
		return Answer{Code: dns.RcodeRefused}
	}
	var a Answer
	owner, name := q.Name, canonical(q.Name)
	for range maxChase {
		next := z.answerOne(&a, owner, name, q.Qtype, id, policy)
		if next == "" {
			return a
		}
		owner, name = next, next
	}
	return Answer{Code: dns.RcodeServerFailure}
}

// answerOne answers for one name, or says at which one to go on.
func (z *Zone) answerOne(a *Answer, owner, name string, qtype, id uint16, policy Policy) (next string) {
	labels := dns.SplitDomainName(name)
	if under(name, Domain) {
		f := z.find(labels[:len(labels)-2])
		switch {
		case f.exists:
			a.Authority = Domain
			return a.add(f, owner, qtype, id)
		case name == z.host:
			a.Forward, a.Authority = name, ""
		default:
			a.Code, a.Authority = dns.RcodeNameError, Domain
		}
		return ""
	}
	if address, zone := reversed(name, labels); zone != "" {
		z.answerReverse(a, owner, name, address, zone, qtype)
		return ""
	}
	for _, domain := range policy.Internal {
		if domain = canonical(domain); under(name, domain) && name != z.host {
			a.Code, a.Authority = dns.RcodeNameError, domain
			return ""
		}
	}
	a.Forward, a.Authority = name, ""
	return ""
}

func (z *Zone) answerReverse(a *Answer, owner, name string, address netip.Addr, zone string, qtype uint16) {
	names := z.namesOf(address)
	switch {
	case len(names) > 0:
		a.Authority = zone
		if qtype != dns.TypePTR {
			return
		}
		for _, n := range names {
			a.Records = append(a.Records, &dns.PTR{Hdr: header(owner, dns.TypePTR), Ptr: n})
		}
	case public(address):
		a.Forward, a.Authority = name, ""
	default:
		a.Code, a.Authority = dns.RcodeNameError, zone
	}
}

// add adds the records of a type that a name has. It returns the name that a canonical
// one leads to.
func (a *Answer) add(f found, owner string, qtype, id uint16) (next string) {
	if f.cname != "" {
		a.Records = append(a.Records, &dns.CNAME{Hdr: header(owner, dns.TypeCNAME), Target: f.cname})
		if qtype == dns.TypeCNAME {
			return ""
		}
		return f.cname
	}
	switch qtype {
	case dns.TypeA, dns.TypeAAAA:
		a.Records = append(a.Records, addresses(owner, rotated(f.addresses, id), qtype, maxRecords)...)
	case dns.TypeSRV:
		for _, t := range rotated(f.targets, id) {
			if len(a.Records) == maxRecords {
				break
			}
			a.Records = append(a.Records, &dns.SRV{Hdr: header(owner, dns.TypeSRV), Weight: weight(len(f.targets)), Port: t.port, Target: t.name})
			a.addExtra(t)
		}
	case dns.TypeTXT:
		if f.text != "" {
			a.Records = append(a.Records, &dns.TXT{Hdr: header(owner, dns.TypeTXT), Txt: []string{f.text}})
		}
	case dns.TypeSOA:
		if canonical(owner) == Domain {
			a.Records = append(a.Records, soa(Domain))
		}
	}
	return ""
}

// addExtra adds the addresses of a target, once: ports share them.
func (a *Answer) addExtra(t target) {
	for _, e := range a.Extra {
		if e.Header().Name == t.name {
			return
		}
	}
	room := maxExtra - len(a.Extra)
	for _, qtype := range []uint16{dns.TypeA, dns.TypeAAAA} {
		a.Extra = append(a.Extra, addresses(t.name, t.addresses, qtype, room)...)
		room = maxExtra - len(a.Extra)
	}
}

func addresses(owner string, of []netip.Addr, qtype uint16, most int) []dns.RR {
	var out []dns.RR
	for _, a := range of {
		switch {
		case len(out) >= most:
			return out
		case qtype == dns.TypeA && a.Is4():
			out = append(out, &dns.A{Hdr: header(owner, dns.TypeA), A: a.AsSlice()})
		case qtype == dns.TypeAAAA && a.Is6():
			out = append(out, &dns.AAAA{Hdr: header(owner, dns.TypeAAAA), AAAA: a.AsSlice()})
		}
	}
	return out
}

func header(owner string, qtype uint16) dns.RR_Header {
	return dns.RR_Header{Name: owner, Rrtype: qtype, Class: dns.ClassINET, Ttl: ttl}
}

// soa is of a zone; a negative answer is good for as long as another one.
func soa(zone string) dns.RR {
	return &dns.SOA{Hdr: header(zone, dns.TypeSOA), Ns: "ns.dns." + Domain, Mbox: "hostmaster." + Domain,
		Serial: 1, Refresh: 7200, Retry: 1800, Expire: 86400, Minttl: ttl}
}

// weight shares 100 among the targets.
func weight(targets int) uint16 { return uint16(max(1, 100/max(1, targets))) }

func rotated[T any](all []T, id uint16) []T {
	if len(all) < 2 {
		return all
	}
	n := int(id) % len(all)
	return append(append(make([]T, 0, len(all)), all[n:]...), all[:n]...)
}

func under(name, domain string) bool { return name == domain || strings.HasSuffix(name, "."+domain) }
