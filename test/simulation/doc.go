// Package simulation runs the real shells of the product in seeded worlds where
// everything goes wrong: the syncer's agent, the controllers of the control plane, and
// the steps of admission that place, stamp and guard, over databases and API servers
// in memory (package kube). There are users who create, edit, delete and make again,
// and claim volumes, with StatefulSets, too, whose data are handed over, copied or restored, people who meddle below, crashes between any two requests, requests that arrive after
// their process has died, answers that get lost, watches that break and lag, lists
// that come back short, physical clusters that refuse what syncers ask, load balancers that
// answer in the place of a server, partitions, Leases that are lost, two syncers for one physical
// cluster, two servers over one database, backups that are restored, networks of physical
// clusters that one joins or leaves, and an admin who registers, cordons, gives up, forces,
// has Manifests, and orders what becomes of orphans.
//
// A world is a bubble of testing/synctest. When everything rests, the seed picks what
// happens next: the same seed is the same world. After each write the ledger compares
// what was done with what may be done (invariants.go); when the chaos ends, everything is
// repaired and the world has to come to rest, true to what users asked for
// (converged.go). A world that fails is shrunk to the few happenings that it takes and
// printed as a transcript:
//
//	go test ./test/simulation -run TestWorlds -seed 4711       one world
//	go test ./test/simulation -run TestWorlds -worlds 20000    many
//	go test ./test/simulation -run TestWorlds -fresh -worlds 1000000 -budget 5m
//	make worlds                                                20,000 of them
//
// What is not real: the servers beneath, the controllers and kubelets of physical
// clusters (below.go), among them provisioners and who makes snapshots, how the bytes of a copy
// get from one pod to the other one, and how processes are composed (server.go, syncer.go).
//
// Every invariant is shown to bite: planted_test.go plants mistakes into the shells and
// expects the worlds to find them. See docs/decisions/0026.
//
// Read next: World.advance, line.RoundTrip, script.go.
package simulation
