// Package answers bounds what is read of the answers of servers that nobody here
// controls: webhooks of tenants, physical clusters. Their answers are read whole before
// anything looks at them, so one that does not end would take all memory there is.
//
// Invariant: who reads an answer through a transport of this package reads no more of it
// than its bound, and together with others of the same owner no more at a time than the
// budget; nor more of a header than 256 KiB. Watches may be excepted: they are read in parts, each with a bound of its own.
// A redirect is an error: it would lead somewhere that nobody named.
//
// A leaf: it knows HTTP and nothing of Atoll.
package answers
