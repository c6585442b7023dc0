// Package units says which objects of a namespace are placed and moved together: to
// which units each belongs, by the PlacementPolicies that select objects and by what
// objects are about. A unit has the name of its Placement.
//
// Invariant: what makes pods is in one unit. What follows it (Kind.Follows) is in all
// units that need it, and what holds for a namespace as a whole is in all of them.
//
// Pure. Read next: Division.Of, docs/decisions/0046-units-of-objects.md.
package units
