// Command e2e judges a logical cluster by upstream's own conformance tests.
//
// Upstream's suite is one binary, e2e.test, built from the module proxy (see the
// package suites). This command runs the tests of names/*.txt with it, in shards
// beside each other and the serial ones alone at the end, reads the reports that
// they leave, and prints one figure for each tier and one for all. A test counts
// as passed only if a report says so: one that did not run has not passed.
//
// The tiers are what a test needs: api runs nothing, webhook-config waits for a
// Deployment at most, placed needs pods that are reported Running and Ready,
// which simulated nodes do. known.txt lists the tests that cannot pass yet, each
// with its reason; they count as not passed, but only others end the command
// with an error, as does a listed test that passes.
//
// The processes it runs are the only I/O beside reading and writing reports.
package main
