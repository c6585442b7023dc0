package controller

import "github.com/kcp-dev/logicalcluster/v3"

// fair is the order of a queue: round robin over logical clusters, and within each the
// first key comes first. So the keys that one logical cluster has waiting delay
// another by one key for each worker, however many they are. Keys that name no
// logical cluster share one place.
type fair[K comparable] struct {
	// ring are the logical clusters that have keys waiting, the next one first.
	ring    []logicalcluster.Name
	waiting map[logicalcluster.Name][]K
	length  int
}

func newFair[K comparable]() *fair[K] {
	return &fair[K]{waiting: map[logicalcluster.Name][]K{}}
}

// clusterOf is the logical cluster that a key names; empty for none.
func clusterOf[K comparable](key K) logicalcluster.Name {
	if s, ok := any(key).(scoped); ok {
		return s.LogicalCluster()
	}
	return ""
}

// Touch implements workqueue.Queue: a key that waits keeps its place.
func (q *fair[K]) Touch(K) {}

// Push implements workqueue.Queue.
func (q *fair[K]) Push(key K) {
	cluster := clusterOf(key)
	keys, ok := q.waiting[cluster]
	if !ok {
		q.ring = append(q.ring, cluster)
	}
	q.waiting[cluster] = append(keys, key)
	q.length++
}

// Len implements workqueue.Queue.
func (q *fair[K]) Len() int { return q.length }

// Pop implements workqueue.Queue.
func (q *fair[K]) Pop() K {
	cluster := q.ring[0]
	q.ring = q.ring[1:]
	keys := q.waiting[cluster]
	key := keys[0]
	var zero K
	keys[0] = zero // the array behind the slice lives on
	if keys = keys[1:]; len(keys) > 0 {
		q.waiting[cluster] = keys
		q.ring = append(q.ring, cluster)
	} else {
		delete(q.waiting, cluster)
	}
	q.length--
	return key
}
