// Package imports keeps what a physical cluster has of Services that are on others of its
// network: Services in the namespace of atoll-dns, and EndpointSlices. Which these are
// syncer.ImportedOf says.
//
// It remembers since when something is not needed, which costs those who hold an address
// nothing when it is lost: the time begins anew.
//
// Read next: docs/decisions/0088-services-of-other-physical-clusters.md.
package imports
