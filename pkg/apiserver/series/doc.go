// Package series bounds how many time series the server has: what tenants name is
// no label of a metric.
//
// Upstream labels requests, storage, watch caches, webhooks and policies with the
// names of resources, webhooks and policies. Here anybody who may define a resource
// in a logical cluster chooses such names, as many as he likes, and each would be
// a series for as long as the process lives. So every such label has a list of
// values, by the means that upstream offers to operators (--allow-metric-labels):
// groups, versions, resources and subresources that the server itself has. Anything
// else is "unexpected". Counters and histograms of it are sums over all; a gauge of
// it is what was set last, and means nothing.
//
// Lists are of the process, not of a server, and count only if they are there before
// the first request.
package series
