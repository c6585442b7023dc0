// Package agent is the shell of pkg/syncer: it keeps the copies of one physical cluster.
// It watches what the server shows of the target, and what carries the label of the
// control plane on the physical cluster; for each object that changes it reads what is
// known, asks the core, and does what that says.
//
// The work is done in rooms, which docs/syncer.md maps: election, connection, report,
// view, dispatch, down, up, orphans. This package composes them. All I/O of the syncer is
// in them: requests to the control plane go through
// /targets/<target>/clusters/<logical cluster>/, requests to the physical cluster through
// its kubeconfig.
//
// Invariant: a physical cluster or a control plane that does not answer leaves
// everything as it is. Only an answer changes the record of a copy, and before
// anything is deleted the server has been asked for it by UID.
//
// Requests pass two guards, which are transports, so that no code can forget them:
// of several Agents for one physical cluster the one that holds its Lease writes
// (election.Fence), and only to the cluster that is meant (connection.Gate).
//
// An Agent runs sessions: a session lasts as long as the identities of the
// control plane and of the physical cluster, and the resources that it serves, stay
// the same. Reports (the Lease, the status of the PhysicalCluster) go on between
// sessions.
//
// Read next: Agent.Run, session.
package agent
