// Package reach carries requests about pods (logs, exec, attach, port-forward, metrics) to
// the physical cluster that runs them, and asks physical clusters whether they are there.
//
//	Call     what is asked, of which pod: pure
//	Link     carries a Call. Direct: to the API server of the physical cluster, with a
//	         credential for it. Remote: to a syncer, which uses Direct
//	Serve    the other end of Remote
//	Asker    what physical clusters answered to Presence within the last moment
//	Failure  what a user may read of an error of the other side: pure
//
// Invariant: a Call is sent over a connection of its own, after whoever is at its end
// has proved to be the physical cluster that is meant, the namespace to be ours and the
// pod to have the UID that the Call names, as far as it is about these. Nothing of the
// client's request is passed on but what a Call has.
//
// Read next: Direct.Do, docs/decisions/0036-reaching-down.md; of metrics,
// 0064-metrics.md.
package reach
