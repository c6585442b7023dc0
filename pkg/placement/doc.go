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
// (decide.go). "May receive" and "may keep" are two questions with two
// predicates: a cordoned, silent or full physical cluster receives nothing and
// keeps what it has.
//
// Policies: the terms of all policies that select the namespace must hold. The
// count and what to do if it is impossible come from the first policy that
// says so: those of the logical cluster before those of "root", by name. A
// taint must be tolerated by a policy of "root"; the policies of the logical
// cluster can only narrow that, so a tenant cannot leave the fence.
//
// Pure: no I/O, no clock. Read Decide first.
package placement
