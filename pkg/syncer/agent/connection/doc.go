// Package connection has the clients of the two servers that a syncer stands between,
// and the gate before the physical cluster: whatever is sent goes to the cluster that is
// meant, and to no other (decision 0021).
//
// The gate is a transport, so that no code can forget it. It knows who answered on each
// connection (the UID of the namespace kube-system), holds the body of a write back until
// the connection that was chosen for it is known, and does not believe an answer that came
// over another. Who is meant is decided by package report, which opens and closes the gate.
//
// Invariant: nothing is written to, or believed of, a physical cluster that is not the one
// that the gate is open for.
//
// What it remembers: who answered on which connection, for as long as that is open.
//
// Read next: gated.RoundTrip, Gate.Confirm.
package connection
