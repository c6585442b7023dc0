// Package simulation runs placement and syncer, as far as they are pure, in
// seeded worlds where everything goes wrong: a control plane and some physical
// clusters (models of API servers: package kube), the controllers and syncers
// between them with caches that lag, users who create, edit, delete and make
// again, people who meddle below, crashes between any two requests, requests and
// replies that get lost, watches that break, lists that come back short,
// partitions that last, physical clusters that are cordoned, registered late or
// given up.
//
// A world is single-threaded and takes every decision from its seed: the same
// seed is the same world, step by step. After each write the ledger compares what
// was done with what may be done (invariants.go); when the chaos ends, everything
// is repaired and the world has to come to rest, true to what users asked for
// (converged.go). A world that fails is shrunk to the few happenings that it
// takes and printed as a transcript:
//
//	go test ./test/simulation -run TestWorlds -seed 4711   one world
//	go test ./test/simulation -run TestWorlds -seeds 5000  many
//
// What is real: placement.Decide, the stamps of admission, protect and
// syncerguard, syncer.Plan, Transform, Observe and Summarize, and what
// pkg/controllers/copies decides. The shells are re-enacted (session*.go for
// pkg/syncer/agent, control*.go for the controllers of the server), request by
// request: they have to follow when the shells change. What is not there: two
// syncers for one physical cluster at a time, and requests that take effect after
// the process which sent them has died and been replaced.
//
// Every invariant is shown to bite: planted_test.go breaks the cores and shells
// on purpose and expects the worlds to find it.
//
// Read next: World, script.go, session.go.
package simulation
