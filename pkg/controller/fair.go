package controller

import "github.com/kcp-dev/logicalcluster/v3"

// fair is the order of a queue: round robin over logical clusters, and within each the
// first key comes first. So the keys that one logical cluster has waiting delay
// another by one key for each worker, however many they are. Keys that name no
// logical cluster share one place. Within a logical cluster, keys with priority and others alternate.
type fair[K comparable] struct {
	// ring are the logical clusters that have keys waiting, the next one first.
	ring    []logicalcluster.Name
	waiting map[logicalcluster.Name]*lines[K]
	length  int
	// priority, if not nil, says which keys have it.
	priority func(K) bool
}

// lines are the keys of a logical cluster.
type lines[K comparable] struct {
	first, others []K
	// yields says that the next is one of the others.
	yields bool
}

func (l *lines[K]) pop() K {
	from := &l.others
	if len(l.first) > 0 && (!l.yields || len(l.others) == 0) {
		from = &l.first
	}
	l.yields = from == &l.first
	key := (*from)[0]
	var zero K
	(*from)[0] = zero // the array behind the slice lives on
	*from = (*from)[1:]
	return key
}

func newFair[K comparable]() *fair[K] {
	return &fair[K]{waiting: map[logicalcluster.Name]*lines[K]{}}
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
	l, ok := q.waiting[cluster]
	if !ok {
		l = &lines[K]{}
		q.ring, q.waiting[cluster] = append(q.ring, cluster), l
	}
	if q.priority != nil && q.priority(key) {
		l.first = append(l.first, key)
	} else {
		l.others = append(l.others, key)
	}
	q.length++
}

// Len implements workqueue.Queue.
func (q *fair[K]) Len() int { return q.length }

// Pop implements workqueue.Queue.
func (q *fair[K]) Pop() K {
	cluster := q.ring[0]
	q.ring = q.ring[1:]
	l := q.waiting[cluster]
	key := l.pop()
	if len(l.first)+len(l.others) > 0 {
		q.ring = append(q.ring, cluster)
	} else {
		delete(q.waiting, cluster)
	}
	q.length--
	return key
}
