package quota

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/utils/lru"

	"github.com/atoll-dev/atoll/pkg/controller"
)

// maxCharged bounds what is remembered; without it there are only more retries.
const maxCharged = 1000

// charged remembers the quotas that were written lately, until the informer has
// them: requests that follow each other closely see each other's charges.
type charged struct{ cache *lru.Cache }

func newCharged() *charged { return &charged{cache: lru.New(maxCharged)} }

func (c *charged) note(q *corev1.ResourceQuota) { c.cache.Add(key(q), q) }

// newer is q or what was written after it.
func (c *charged) newer(q *corev1.ResourceQuota) *corev1.ResourceQuota {
	found, ok := c.cache.Get(key(q))
	if !ok {
		return q
	}
	written := found.(*corev1.ResourceQuota)
	if written.UID != q.UID || (storage.APIObjectVersioner{}).CompareResourceVersion(q, written) >= 0 {
		c.cache.Remove(key(q))
		return q
	}
	return written
}

func key(q *corev1.ResourceQuota) string { return controller.RequestFor(q).String() }
