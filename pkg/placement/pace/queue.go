package pace

import (
	"cmp"
	"slices"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
)

// Unit names a unit.
type Unit struct {
	Cluster         logicalcluster.Name
	Namespace, Name string
}

// Waiting is a unit that would move, and waits for room since then: that is stored, so that
// several servers have the same order, also after a restart.
type Waiting struct {
	Unit
	Move
	Since time.Time
}

// Queue has the units that wait for room, in order: who waits for longest comes first, of equals by
// name. A drain has thousands, each of which is looked at again and again: nothing here but
// Next goes through all of them.
type Queue struct {
	units map[Unit]*Waiting
	order line
	// tenants have those of each logical cluster.
	tenants map[logicalcluster.Name]line
}

// line is in order.
type line []*Waiting

func before(a, b *Waiting) int {
	return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Unit.Cluster, b.Unit.Cluster), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

func (l line) with(w *Waiting) line {
	i, _ := slices.BinarySearchFunc(l, w, before)
	return slices.Insert(l, i, w)
}

func (l line) without(w *Waiting) line {
	i, _ := slices.BinarySearchFunc(l, w, before)
	return slices.Delete(l, i, i+1)
}

// Put has a unit wait, in the place of what was said of it before.
func (q *Queue) Put(w Waiting) {
	q.Remove(w.Unit)
	if q.units == nil {
		q.units, q.tenants = map[Unit]*Waiting{}, map[logicalcluster.Name]line{}
	}
	q.units[w.Unit] = &w
	q.order = q.order.with(&w)
	q.tenants[w.Unit.Cluster] = q.tenants[w.Unit.Cluster].with(&w)
}

// Remove takes a unit out, and reports whether it was in.
func (q *Queue) Remove(u Unit) bool {
	w, ok := q.units[u]
	if !ok {
		return false
	}
	delete(q.units, u)
	q.order = q.order.without(w)
	if left := q.tenants[u.Cluster].without(w); len(left) > 0 {
		q.tenants[u.Cluster] = left
	} else {
		delete(q.tenants, u.Cluster)
	}
	return true
}

// Has says that a unit waits.
func (q *Queue) Has(u Unit) bool {
	_, ok := q.units[u]
	return ok
}

// Next are those of a queue that may begin now, each as if those before it had begun.
// Who is kept by something that does not keep others lets these pass.
func (l *Load) Next(q *Queue) []Unit {
	var next []Unit
	for _, w := range q.order {
		if l.Full(w.Move) == "" {
			l.Add(w.Move)
			next = append(next, w.Unit)
		}
	}
	return next
}

// Ahead is how many units of its logical cluster wait longer than a unit of the queue does, at most: 1, 3,
// 10, 30 and so on. Who waits is told when that changes, and not with each move.
func (q *Queue) Ahead(u Unit) int {
	w, ok := q.units[u]
	if !ok {
		return 0
	}
	n, _ := slices.BinarySearchFunc(q.tenants[u.Cluster], w, before)
	if n == 0 {
		return 0
	}
	step := 1
	for ; step < n && 3*step < n; step *= 10 {
	}
	if step < n {
		return 3 * step
	}
	return step
}
