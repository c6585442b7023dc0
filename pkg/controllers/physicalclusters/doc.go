// Package physicalclusters cares for the PhysicalClusters of "root": it gives
// them the id of the control plane, concludes from their Leases whether their
// syncers live, keeps them while work is on them, and forgets those that are
// lost for good.
//
// Silence is Unknown, not NotReady: a syncer that does not renew its Lease for
// 40 seconds makes Ready and Syncing Unknown, and that is all that happens. The
// time counts from when this process saw the last renewal, so neither a restart
// of the server nor a wrong clock elsewhere looks like silence.
//
// Forgetting is the admin's way out: the copies of the physical cluster count as
// removed although nobody saw them go, so that deletions which wait for them
// end; status.forgotten is the report. The finalizer of a PhysicalCluster goes
// when no Copy and no Placement names it any more.
//
// A cluster that is registered twice is refused the second time: an identity that a
// syncer records (status.identity) is accepted for one PhysicalCluster only.
//
// What is decided is in health.go, forget.go and claim, without I/O.
package physicalclusters
