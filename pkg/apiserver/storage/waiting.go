package storage

import (
	"context"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/client/v3/kubernetes"

	"github.com/atoll-dev/atoll/pkg/apiserver/fairness"
)

// waiting has expensive requests give up their processor while etcd works for them, and makes
// expensive what reads a lot, before anything of it is decoded. What is read as a stream,
// from an etcd that is not in this process, is expensive when it is answered.
type waiting struct{ kubernetes.Interface }

// Get implements kubernetes.Interface.
func (k waiting) Get(ctx context.Context, key string, o kubernetes.GetOptions) (kubernetes.GetResponse, error) {
	back := fairness.Wait(ctx)
	answer, err := k.Interface.Get(ctx, key, o)
	back()
	if answer.KV != nil {
		fairness.Read(ctx, len(answer.KV.Value))
	}
	return answer, err //nolint:wrapcheck // upstream compares it
}

// List implements kubernetes.Interface.
func (k waiting) List(ctx context.Context, prefix string, o kubernetes.ListOptions) (kubernetes.ListResponse, error) {
	back := fairness.Wait(ctx)
	answer, err := k.Interface.List(ctx, prefix, o)
	back()
	fairness.Read(ctx, sizeOf(answer.Kvs))
	return answer, err //nolint:wrapcheck // upstream compares it
}

// OptimisticPut implements kubernetes.Interface.
func (k waiting) OptimisticPut(ctx context.Context, key string, value []byte, expectedRevision int64, o kubernetes.PutOptions) (kubernetes.PutResponse, error) {
	defer fairness.Wait(ctx)()
	return k.Interface.OptimisticPut(ctx, key, value, expectedRevision, o) //nolint:wrapcheck // upstream compares it
}

// OptimisticDelete implements kubernetes.Interface.
func (k waiting) OptimisticDelete(ctx context.Context, key string, expectedRevision int64, o kubernetes.DeleteOptions) (kubernetes.DeleteResponse, error) {
	defer fairness.Wait(ctx)()
	return k.Interface.OptimisticDelete(ctx, key, expectedRevision, o) //nolint:wrapcheck // upstream compares it
}

func sizeOf(kvs []*mvccpb.KeyValue) (n int) {
	for _, kv := range kvs {
		n += len(kv.Value)
	}
	return n
}
