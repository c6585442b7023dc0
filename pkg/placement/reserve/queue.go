package reserve

import (
	"container/heap"
	"iter"
	"slices"
	"time"
)

// ends has units by when their reservations end, the first first. One that has reserved again is in it again.
type ends []end

type end struct {
	unit Unit
	at   time.Time
}

var _ heap.Interface = (*ends)(nil)

// Len implements heap.Interface, as the others do.
func (e *ends) Len() int           { return len(*e) }
func (e *ends) Less(i, j int) bool { return (*e)[i].at.Before((*e)[j].at) }
func (e *ends) Swap(i, j int)      { (*e)[i], (*e)[j] = (*e)[j], (*e)[i] }
func (e *ends) Push(x any)         { *e = append(*e, x.(end)) } //nolint:forcetypeassert // only add pushes
func (e *ends) Pop() any {
	last := len(*e) - 1
	x := (*e)[last]
	*e = slices.Delete(*e, last, last+1)
	return x
}

func (e *ends) add(u Unit, at time.Time) { heap.Push(e, end{u, at}) }

// until takes out the units of which a reservation has ended.
func (e *ends) until(now time.Time) iter.Seq[Unit] {
	return func(yield func(Unit) bool) {
		for len(*e) > 0 && !now.Before((*e)[0].at) {
			if !yield(heap.Pop(e).(end).unit) { //nolint:forcetypeassert // only add pushes
				return
			}
		}
	}
}

// order has the reservations that a watch showed, in the order of its events, which is that of versions.
type order []ordered

type ordered struct {
	unit    Unit
	version string
	expires time.Time
}

func (o *order) add(u Unit, e entry) { *o = append(*o, ordered{u, e.version, e.expires}) }

// expire forgets what has ended.
func (o *order) expire(now time.Time) {
	for len(*o) > 0 && !now.Before((*o)[0].expires) {
		*o = (*o)[1:]
	}
}

// after are the units that reserved after a version, each with the version at which it did.
func (o *order) after(version string) iter.Seq2[Unit, string] {
	return func(yield func(Unit, string) bool) {
		for _, one := range slices.Backward(*o) {
			order, known := compare(one.version, version)
			if known && order <= 0 {
				return
			}
			if known && !yield(one.unit, one.version) {
				return
			}
		}
	}
}
