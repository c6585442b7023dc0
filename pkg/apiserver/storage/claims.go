package storage

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/semaphore"
	"k8s.io/klog/v2"
)

const (
	// claimTime is for how long a claim holds at least, if nobody ends it. It is longer than any request goes on.
	claimTime = 90 * time.Second
	// leaseShared is for how long one lease is given to claims: so much longer the first of them hold.
	leaseShared = time.Minute
	// releaseTimeout is how long etcd may take to end a claim. What it does not end ends with its lease.
	releaseTimeout = 5 * time.Second
)

// Claims keep values to one request while it stores an object that has them: of all servers of an etcd, at most one
// request has a claim to a value. Names are unique by themselves; this is for what else must not be twice in a
// logical cluster. What is stored is found by who claims the value afterwards and reads what is stored then, so that
// a claim needs to last no longer than the request.
type Claims struct {
	client *clientv3.Client
	prefix string

	// granting has one request at a time ask for a lease.
	granting *semaphore.Weighted
	lease    clientv3.LeaseID
	// renew is when the next lease is granted.
	renew time.Time
}

// Claim is one that a request has.
type Claim struct {
	key      string
	revision int64
}

// NewClaims keeps claims below a prefix of keys, with a slash at its end.
func NewClaims(client *clientv3.Client, prefix string) *Claims {
	return &Claims{client: client, prefix: prefix, granting: semaphore.NewWeighted(1)}
}

// Take claims a value of a logical cluster, unless another request has it. What a value is is up to the caller: it
// begins with the kind of what it is, and is no longer than a name.
func (c *Claims) Take(ctx context.Context, cluster logicalcluster.Name, value string) (_ *Claim, ok bool, err error) {
	key := c.prefix + cluster.String() + "/" + value
	lease, err := c.leased(ctx, 0)
	if err != nil {
		return nil, false, err
	}
	put := func() (*clientv3.TxnResponse, error) {
		return c.client.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(key), "=", 0)).Then(clientv3.OpPut(key, "", clientv3.WithLease(lease))).Commit()
	}
	answer, err := put()
	if errors.Is(err, rpctypes.ErrLeaseNotFound) { // etcd was restored, or stood still for as long
		if lease, err = c.leased(ctx, lease); err != nil {
			return nil, false, err
		}
		answer, err = put()
	}
	if err != nil {
		return nil, false, fmt.Errorf("claiming %s: %w", value, err)
	}
	if !answer.Succeeded {
		return nil, false, nil
	}
	return &Claim{key: key, revision: answer.Header.Revision}, true, nil
}

// leased is the lease of the claims of this minute, and not the one that has ended.
func (c *Claims) leased(ctx context.Context, ended clientv3.LeaseID) (clientv3.LeaseID, error) {
	if err := c.granting.Acquire(ctx, 1); err != nil {
		return 0, fmt.Errorf("waiting for a lease for claims: %w", err)
	}
	defer c.granting.Release(1)
	if c.lease != 0 && c.lease != ended && time.Now().Before(c.renew) {
		return c.lease, nil
	}
	answer, err := c.client.Grant(ctx, int64((claimTime+leaseShared)/time.Second))
	if err != nil {
		return 0, fmt.Errorf("granting a lease for claims: %w", err)
	}
	c.lease, c.renew = answer.ID, time.Now().Add(leaseShared)
	return c.lease, nil
}

// Release ends claims: what has the value is stored, or is not going to be. It is called when the request has ended, too.
func (c *Claims) Release(ctx context.Context, claims ...*Claim) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	for _, claim := range claims {
		own := clientv3.Compare(clientv3.CreateRevision(claim.key), "=", claim.revision)
		if _, err := c.client.Txn(ctx).If(own).Then(clientv3.OpDelete(claim.key)).Commit(); err != nil {
			klog.FromContext(ctx).Info("A claim was not ended, and ends by itself", "key", claim.key, "within", claimTime+leaseShared, "err", err)
		}
	}
}
