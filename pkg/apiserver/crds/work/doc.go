// Package work says what it costs to validate an object by the schema of a definition
// (docs/decisions/0045). Upstream's validation cannot be interrupted, and costs the product of what
// the schema has for a value and how many values there are: branches of anyOf, properties
// of each object in a list, patterns for each byte.
//
// Of makes what a value costs of a schema, once; Steps walks an object by it, at a fraction of what
// validation takes; Refused bounds the patterns of one schema, which upstream's library compiles, and
// remembers, when it meets them first.
//
// Invariant: it is pure, and costs no more than the schema and the object are long.
package work
