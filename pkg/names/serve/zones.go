package serve

import (
	"sync"

	"github.com/miekg/dns"

	"github.com/atoll-dev/atoll/pkg/names"
)

// zones are those of all logical clusters with pods or imports here.
type zones struct {
	policy names.Policy

	mu      sync.RWMutex
	byName  map[names.Tenant]*names.Zone
	placed  map[string]placed         // by physical namespace
	imports map[string]names.Imported // by Service of atoll-dns's own namespace
}

// placed is whose a physical namespace is.
type placed struct {
	tenant    names.Tenant
	namespace string
}

func newZones(policy names.Policy) *zones {
	return &zones{policy: policy, byName: map[names.Tenant]*names.Zone{}, placed: map[string]placed{}, imports: map[string]names.Imported{}}
}

// answer answers a question of a logical cluster; of one that has nothing here, too.
func (z *zones) answer(t names.Tenant, q dns.Question, id uint16) names.Answer {
	z.mu.RLock()
	defer z.mu.RUnlock()
	zone := z.byName[t]
	if zone == nil {
		zone = names.NewZone()
	}
	return zone.Answer(q, id, z.policy)
}

// zone is that of a logical cluster, made if there is none; the lock is held.
func (z *zones) zone(t names.Tenant) *names.Zone {
	if z.byName[t] == nil {
		z.byName[t] = names.NewZone()
	}
	return z.byName[t]
}

// tidy forgets a zone without names; the lock is held.
func (z *zones) tidy(t names.Tenant) {
	if zone := z.byName[t]; zone != nil && zone.Empty() {
		delete(z.byName, t)
	}
}

// place notes whose a physical namespace is, nil if it is nobody's any more. It returns whose
// it was, if that is another one. What it had has no names then; the lock is held.
func (z *zones) place(physical string, now *placed) (before *placed, changed bool) {
	was, known := z.placed[physical]
	if known && now != nil && was == *now || !known && now == nil {
		return nil, false
	}
	if known {
		before = &was
		z.zone(was.tenant).DeleteNamespace(was.namespace)
		z.tidy(was.tenant)
		delete(z.placed, physical)
	}
	if now != nil {
		z.placed[physical] = *now
		z.zone(now.tenant).SetNamespace(now.namespace)
	}
	return before, true
}

// setImport adds what a Service leads to, which dropImport knows by its name. The lock is held.
func (z *zones) setImport(service string, i names.Imported, s names.Service) {
	z.imports[service] = i
	z.zone(i.Tenant).SetImport(s, i.Retired)
}

// dropImport removes what a Service led to, if anything: the Service may not be there to say
// it. The lock is held.
func (z *zones) dropImport(service string) {
	if i, ok := z.imports[service]; ok {
		delete(z.imports, service)
		z.zone(i.Tenant).DeleteImport(i.Namespace, i.Name)
		z.tidy(i.Tenant)
	}
}

// setServer says where the control plane is for the pods of a logical cluster.
func (z *zones) setServer(t names.Tenant, s names.Server) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.zone(t).SetServer(s)
	z.tidy(t)
}
