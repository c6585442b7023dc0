package controller

import (
	"slices"
	"sync"

	"github.com/kcp-dev/logicalcluster/v3"
)

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
	// cluster is the logical cluster of a key.
	cluster func(K) logicalcluster.Name
	// shares, if not nil, says of whom another key may be taken now.
	shares *shares
}

// shares are the workers of a queue whose calls may take long. A logical cluster takes another one only while it has
// fewer than two for each that is free: alone it has two thirds of them, and while few have calls that do not
// end, some are left for one that comes. As many of these as there are workers take them all.
//
//	have calls   each has, of 36   free
//	1            24                12
//	2            14 or 15          7 or 8
//	8            4 or 5            2 or 3
type shares struct {
	workers int

	mu   sync.Mutex // who ends a call has not the lock of the queue
	busy map[logicalcluster.Name]int
	// calls are those that are under way, by their keys.
	calls map[any]logicalcluster.Name
}

func newShares() *shares {
	return &shares{busy: map[logicalcluster.Name]int{}, calls: map[any]logicalcluster.Name{}}
}

func (s *shares) permit(cluster logicalcluster.Name) bool {
	if s == nil {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.busy[cluster] < 2*(s.workers-len(s.calls))
}

func (s *shares) begin(key any, cluster logicalcluster.Name) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls[key] = cluster
	s.busy[cluster]++
}

// end comes before its worker looks for another key: whoever is permitted one by it gets that one, or the next.
func (s *shares) end(key any) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	cluster := s.calls[key]
	delete(s.calls, key)
	if s.busy[cluster]--; s.busy[cluster] == 0 {
		delete(s.busy, cluster)
	}
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
	return &fair[K]{waiting: map[logicalcluster.Name]*lines[K]{}, cluster: clusterOf[K]}
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
	cluster := q.cluster(key)
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

// Len implements workqueue.Queue: a key that may not be taken now is none.
func (q *fair[K]) Len() int {
	if q.next() < 0 {
		return 0
	}
	return q.length
}

// next is the first in the ring of whom a key may be taken; -1 if there is none.
func (q *fair[K]) next() int { return slices.IndexFunc(q.ring, q.shares.permit) }

// Pop implements workqueue.Queue.
func (q *fair[K]) Pop() K {
	at := max(q.next(), 0) // one that was permitted when Len was asked is so still: calls only end meanwhile
	cluster := q.ring[at]
	if at == 0 { // there may be many thousands
		q.ring = q.ring[1:]
	} else {
		q.ring = slices.Delete(q.ring, at, at+1)
	}
	l := q.waiting[cluster]
	key := l.pop()
	q.shares.begin(key, cluster)
	if len(l.first)+len(l.others) > 0 {
		q.ring = append(q.ring, cluster)
	} else {
		delete(q.waiting, cluster)
	}
	q.length--
	return key
}
