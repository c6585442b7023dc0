// Package mirrors ends what was mirrored from a physical cluster where nobody says any more that it ended: its
// syncer does that, for as long as the Namespace has a copy there.
//
// Invariant: nothing ends because an informer lacks something. The object, its Namespace and the PhysicalCluster are
// read, in this order, and the object is deleted as it was read. Ends is pure and has the table.
//
// Nothing is deleted on a physical cluster. What is still there is listed by its syncer as an Orphan, see
// docs/orphans.md.
package mirrors
