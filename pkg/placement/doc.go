// Package placement decides which physical clusters a unit runs on.
//
// Decide is a function of a Snapshot (the physical clusters with what they
// report and what is assumed about them, and the policies) and a Unit (the
// namespace and what it asks for). The same input gives the same output, and
// every physical cluster that was not chosen has a reason and a sentence.
// Admission, its dry run and previews all call this one function: "what if" is
// the code of "do it".
//
// It works in three steps: filter (filter.go), score (score.go), choose
// (shape.go). "May receive" and "may keep" are two questions with two
// predicates: a cordoned, silent or full physical cluster receives nothing and
// keeps what it has.
//
// Policies are of three levels: "root", the logical cluster, the namespace. Constraints
// of all that select the namespace hold together; the shape (how many, laid out how:
// shape.go), the order (which are better: score.go) and what to do if it is impossible
// come from the most specific policy that says so. So a tenant cannot leave the fence.
//
// Verify asks Decide whether a decision in force is still what the policies permit.
//
// Pure: no I/O, no clock. Read Decide first.
package placement
