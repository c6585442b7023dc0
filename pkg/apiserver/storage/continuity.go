package storage

import (
	"context"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	// continuityInterval is how often etcd is asked for its revision.
	continuityInterval = 5 * time.Second
	// continuityTimeout is how long an answer may take.
	continuityTimeout = 5 * time.Second
)

// Continuity notices that etcd is not the continuation of what it was: that it has
// another identity, or an older revision, as after a backup was restored. The etcd
// client resumes watches at the revision that it knows, so that no watch cache would
// notice. Every server over that etcd does so by itself.
type Continuity struct {
	client *clientv3.Client
	last   etcdState
}

// Continuity begins with what etcd is when it is asked first.
func (s *Clients) Continuity() *Continuity { return &Continuity{client: s.vacancies} }

// Run returns an error when etcd went back; whoever gets it ends the process, which
// reads everything anew when it is started again.
func (c *Continuity) Run(ctx context.Context) error {
	ticker := time.NewTicker(continuityInterval)
	defer ticker.Stop()
	for {
		if _, err := c.Check(ctx); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// Check asks once; known is false if etcd does not answer.
func (c *Continuity) Check(ctx context.Context) (known bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, continuityTimeout)
	defer cancel()
	answer, err := c.client.Get(ctx, "/", clientv3.WithCountOnly())
	if err != nil {
		return false, nil //nolint:nilerror // silence proves nothing
	}
	now := etcdState{answer.Header.ClusterId, answer.Header.Revision}
	if err := now.continues(c.last); err != nil {
		return true, err
	}
	c.last = now
	return true, nil
}

// etcdState is what etcd says of itself; the zero value is not known.
type etcdState struct {
	cluster  uint64
	revision int64
}

func (now etcdState) continues(last etcdState) error {
	switch {
	case last == etcdState{}:
		return nil
	case now.cluster != last.cluster:
		return fmt.Errorf("etcd is another one than before (cluster %x, was %x): start the server again", now.cluster, last.cluster)
	case now.revision < last.revision:
		return fmt.Errorf("etcd went back in time (revision %d, was %d), as if a backup had been restored: start the server again", now.revision, last.revision)
	}
	return nil
}
