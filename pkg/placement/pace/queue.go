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

func before(a, b Waiting) int {
	return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Unit.Cluster, b.Unit.Cluster), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// Sort has those come first that wait for longest, of equals by name.
func Sort(waiting []Waiting) { slices.SortFunc(waiting, before) }

// Next are those of a sorted queue that may begin now, each as if those before it had begun.
// Who is kept by something that does not keep others lets these pass.
func (l *Load) Next(waiting []Waiting) []Unit {
	var next []Unit
	for _, w := range waiting {
		if l.Full(w.Move) == "" {
			l.Add(w.Move)
			next = append(next, w.Unit)
		}
	}
	return next
}

// Ahead is how many units of its logical cluster wait longer than a unit does, at most: 1, 3,
// 10, 30 and so on. Who waits is told when that changes, and not with each move.
func Ahead(waiting []Waiting, of Waiting) int {
	n := 0
	for _, w := range waiting {
		if w.Unit.Cluster == of.Unit.Cluster && before(w, of) < 0 {
			n++
		}
	}
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
