package division

import (
	"cmp"
	"slices"
)

// By says what shares follow.
type By string

const (
	// Weights: in proportion to the weights.
	Weights By = "Weights"
	// Free: what is added is in proportion to the room; what is there stays.
	Free By = "Free"
	// Packed: what is added goes to as few as possible; what is there stays.
	Packed By = "Packed"
)

// Target is a physical cluster that gets a share.
type Target struct {
	Name   string
	Weight int64
	// Room is how many more replicas fit.
	Room int64
	// Min and Max bound the share; a Max below 0 is none.
	Min, Max int64
	// Present is the share that it has.
	Present int64
}

// Divide returns the shares of a wish, in the order of the targets. Without targets there
// are none.
//
//	the wish is                    then
//	less than all minimums         divided in proportion to the minimums
//	more than all maximums         each has its maximum; what is over is divided without them
//	else                           each share is within its bounds
func Divide(by By, targets []Target, wish int64) []int64 {
	if len(targets) == 0 {
		return nil
	}
	wish = max(0, wish)
	parts := make([]part, len(targets))
	least, most, bounded := int64(0), int64(0), true
	for i, t := range targets {
		parts[i] = part{Target: t, least: max(0, t.Min), most: wish}
		if t.Max >= 0 {
			parts[i].least, parts[i].most = min(parts[i].least, t.Max), min(wish, t.Max)
		}
		least += parts[i].least
		most += parts[i].most
		bounded = bounded && t.Max >= 0
	}
	switch {
	case least > wish:
		for i := range parts {
			parts[i].weight, parts[i].least, parts[i].most = parts[i].least, 0, parts[i].least
		}
		return exact(parts, wish)
	case bounded && most < wish:
		return overflow(by, parts, wish)
	}
	return within(by, parts, wish)
}

// part is what one target may have.
type part struct {
	Target
	weight, least, most int64
}

// overflow gives all their maximum, and divides the rest without one.
func overflow(by By, parts []part, wish int64) []int64 {
	rest := wish
	for i, p := range parts {
		rest -= p.most
		parts[i].least, parts[i].most = 0, wish
		parts[i].Present = max(0, p.Present-p.most)
	}
	shares := within(by, parts, rest)
	for i, p := range parts {
		shares[i] += min(wish, p.Max)
	}
	return shares
}

func within(by By, parts []part, wish int64) []int64 {
	if by == Weights {
		for i := range parts {
			parts[i].weight = parts[i].Weight
		}
		return exact(parts, wish)
	}
	kept, rest := make([]int64, len(parts)), wish
	for i, p := range parts {
		kept[i] = min(max(p.Present, p.least), p.most)
		rest -= kept[i]
	}
	switch {
	case by == Packed:
		pack(parts, kept, rest)
	case rest > 0:
		for i, more := range exact(after(parts, func(p part, i int) part {
			return part{weight: p.Room, most: p.most - kept[i]}
		}), rest) {
			kept[i] += more
		}
	case rest < 0:
		for i, less := range exact(after(parts, func(p part, i int) part {
			return part{weight: kept[i] - p.least, most: kept[i] - p.least}
		}), -rest) {
			kept[i] -= less
		}
	}
	return kept
}

func after(parts []part, change func(part, int) part) []part {
	out := make([]part, len(parts))
	for i, p := range parts {
		out[i] = change(p, i)
		out[i].Name = p.Name
	}
	return out
}

// pack adds to, or takes from, what is kept: it fills those that have most, then those with
// most room, each as far as there is room; what fits nowhere goes to the first of them. It
// empties those that have least.
func pack(parts []part, kept []int64, rest int64) {
	order := make([]int, len(parts))
	for i := range order {
		order[i] = i
	}
	had := slices.Clone(kept)
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(-cmp.Compare(had[a], had[b]), -cmp.Compare(parts[a].Room, parts[b].Room), cmp.Compare(parts[a].Name, parts[b].Name))
	})
	if rest < 0 {
		for _, i := range slices.Backward(order) {
			less := min(-rest, kept[i]-parts[i].least)
			kept[i], rest = kept[i]-less, rest+less
		}
		return
	}
	for _, full := range []bool{false, true} {
		for _, i := range order {
			more := min(rest, parts[i].most-kept[i])
			if !full {
				more = min(more, max(0, parts[i].Room-(kept[i]-had[i])))
			}
			kept[i], rest = kept[i]+more, rest-more
		}
	}
}
