// Package e2e tests Atoll as its users meet it: real processes, real Kubernetes
// control planes (localcluster, with simulated nodes), real kubectl.
//
// TestMain starts one lab for all tests: two physical clusters, east and west, and
// one server. Every test owns a fresh logical cluster. A test that stops, kills or
// freezes a process, or changes what others depend on, starts it for itself (newLab,
// addPush, startPull): a server takes a second of a processor, a physical cluster three.
// Tests that cannot are not parallel, and those that are wait for them, as Go runs
// parallel tests after the sequential ones.
//
// The tests skip, with a line that says why, if the binaries are not built.
package e2e
