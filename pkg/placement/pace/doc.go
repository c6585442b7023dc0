// Package pace says which units may begin to move: each move makes copies, pulls images and
// takes room twice, and a fleet that moves at once would stand still.
//
// A Load is counted from the moves that are stored; Full says what keeps one more from
// beginning, Next which of those that wait may begin, in their order. Who waits is woken when
// there is room for it, and costs nothing until then.
//
// Invariants: no tenant holds a drain up, and no tenant another one. What is wrong stops with the
// first of its moves: what does not arrive, and runs in both places, counts for the policy, the
// drain and the logical cluster that it is of. From others it takes half of a place at most, so
// that it keeps nobody else from moving; but a drain by which nothing arrives of several logical
// clusters stops.
//
// Pure. Read next: Full.
package pace
