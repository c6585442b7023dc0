package storage

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/etcd3/metrics"
)

const (
	// countInterval is how often the objects of a resource are counted, as upstream.
	countInterval = time.Minute
	// countTimeout bounds the question to etcd.
	countTimeout = 10 * time.Second
)

// Counts keeps the metric apiserver_storage_objects of all resources, one after the
// other. Upstream has a goroutine for each.
type Counts struct {
	mu       sync.Mutex
	storages map[schema.GroupResource]storage.Interface
}

// Run counts until ctx ends.
func (c *Counts) Run(ctx context.Context) {
	wait.JitterUntilWithContext(ctx, c.count, countInterval, 0.25, true)
}

func (c *Counts) count(ctx context.Context) {
	c.mu.Lock()
	resources := make([]schema.GroupResource, 0, len(c.storages))
	for gr := range c.storages {
		resources = append(resources, gr)
	}
	c.mu.Unlock()
	for _, gr := range resources {
		c.countOne(ctx, gr)
	}
}

func (c *Counts) countOne(ctx context.Context, gr schema.GroupResource) {
	c.mu.Lock()
	s := c.storages[gr]
	c.mu.Unlock()
	if s == nil {
		return // it was removed meanwhile
	}
	ctx, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()
	stats, err := s.Stats(ctx)
	if ctx.Err() == nil || err == nil {
		metrics.UpdateStoreStats(gr, stats, err)
	}
}

// add counts the objects of a storage until remove is called.
func (c *Counts) add(gr schema.GroupResource, s storage.Interface) (remove func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.storages == nil {
		c.storages = map[schema.GroupResource]storage.Interface{}
	}
	c.storages[gr] = s
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.storages, gr)
		metrics.DeleteStoreStats(gr)
	}
}
