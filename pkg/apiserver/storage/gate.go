package storage

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/kubernetes"
)

// Gate decides about writes when their bytes are known, before they are sent to etcd.
type Gate interface {
	// Admit returns why value must not be stored under key, where something exists.
	Admit(ctx context.Context, key string, value []byte, exists bool) error
	// Written is called when value is stored under key; nil says that it was deleted.
	Written(key string, value []byte)
}

// Guard has a gate in front of all writes of all storages. It is called before any
// storage is used.
func (s *Clients) Guard(g Gate) {
	for _, client := range s.clients {
		client.Kubernetes = gated{client.Kubernetes, g}
	}
}

// All is a client with a stream of watches of its own, for who watches everything.
func (s *Clients) All() *clientv3.Client { return s.all }

type gated struct {
	kubernetes.Interface
	gate Gate
}

// OptimisticPut implements kubernetes.Interface.
func (k gated) OptimisticPut(ctx context.Context, key string, value []byte, expectedRevision int64, o kubernetes.PutOptions) (kubernetes.PutResponse, error) {
	if err := k.gate.Admit(ctx, key, value, expectedRevision != 0); err != nil {
		return kubernetes.PutResponse{}, err
	}
	answer, err := k.Interface.OptimisticPut(ctx, key, value, expectedRevision, o)
	if err == nil && answer.Succeeded {
		k.gate.Written(key, value)
	}
	return answer, err
}

// OptimisticDelete implements kubernetes.Interface.
func (k gated) OptimisticDelete(ctx context.Context, key string, expectedRevision int64, o kubernetes.DeleteOptions) (kubernetes.DeleteResponse, error) {
	answer, err := k.Interface.OptimisticDelete(ctx, key, expectedRevision, o)
	if err == nil && answer.Succeeded {
		k.gate.Written(key, nil)
	}
	return answer, err
}
