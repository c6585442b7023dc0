// Package pace says which units may begin to move: each move makes copies, pulls images and
// takes room twice, and a fleet that moves at once would stand still.
//
// A Load is counted from the moves that are stored; Full says what keeps one more from
// beginning, Next which of those that wait may begin, in their order. Who waits is woken when
// there is room for it, and costs nothing until then.
//
// Invariants: tenants hold no drain up, and no tenant another one; what does not come on keeps
// nobody else from moving, but for those that the same policy moves: a policy that is wrong
// stops with the first of its moves.
//
// Pure. Read next: Full.
package pace
