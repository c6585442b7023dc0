package limits

import (
	"context"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/klog/v2"
)

const (
	// retryInterval is when everything is counted anew after a watch was lost.
	retryInterval = time.Second
	// Pages have as many objects as fit into a few MiB.
	minPage, maxPage = 16, 1024
	pageBytes        = 4 * mib
	pageTimeout      = 30 * time.Second
)

// Run counts until ctx ends. What was counted before stays until it is counted anew.
func (c *Counter) Run(ctx context.Context) {
	for ctx.Err() == nil {
		if err := c.follow(ctx); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Counting what logical clusters keep failed, it is counted anew")
		}
		select {
		case <-ctx.Done():
		case <-c.Clock.After(retryInterval):
		}
	}
}

// follow counts everything, then follows what is written, until the watch is lost.
func (c *Counter) follow(ctx context.Context) error {
	fresh, revision, err := c.walk(ctx)
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.tally = fresh
	c.mu.Unlock()
	c.once.Do(func() { close(c.counted) })

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for answer := range c.Etcd.Watch(ctx, Prefix, clientv3.WithPrefix(), clientv3.WithRev(revision+1), clientv3.WithFragment()) {
		if err := answer.Err(); err != nil {
			return fmt.Errorf("watching etcd: %w", err)
		}
		c.take(answer.Events)
	}
	return nil
}

func (c *Counter) take(events []*clientv3.Event) {
	now := c.Clock.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range events {
		key := string(e.Kv.Key)
		if e.Type == mvccpb.DELETE {
			c.tally.set(key, 0)
			continue
		}
		bytes := stored(key, len(e.Kv.Value))
		c.tally.set(key, bytes)
		c.recent.take(now, key, bytes)
	}
}

// walk counts what there is at a revision, page by page.
func (c *Counter) walk(ctx context.Context) (*tally, int64, error) {
	all, revision, page := newTally(), int64(0), int64(minPage)
	end := clientv3.GetPrefixRangeEnd(Prefix)
	for from := Prefix; ; {
		bounded, cancel := context.WithTimeout(ctx, pageTimeout)
		answer, err := c.Etcd.Get(bounded, from, clientv3.WithRange(end), clientv3.WithLimit(page), clientv3.WithRev(revision))
		cancel()
		if err != nil {
			return nil, 0, fmt.Errorf("counting what etcd holds: %w", err)
		}
		if revision == 0 {
			revision = answer.Header.Revision
		}
		read := int64(0)
		for _, kv := range answer.Kvs {
			bytes := stored(string(kv.Key), len(kv.Value))
			all.set(string(kv.Key), bytes)
			read += bytes
		}
		if !answer.More || len(answer.Kvs) == 0 {
			return all, revision, nil
		}
		from = string(answer.Kvs[len(answer.Kvs)-1].Key) + "\x00"
		page = nextPage(page, read)
	}
}

// nextPage is how many objects to ask for after page had so many bytes.
func nextPage(page, read int64) int64 {
	switch {
	case read > pageBytes:
		return max(page/2, minPage)
	case read < pageBytes/2:
		return min(page*2, maxPage)
	}
	return page
}
