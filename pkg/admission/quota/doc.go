// Package quota refuses what would exceed a ResourceQuota, and charges what does
// not.
//
// What an object uses and whether it fits is upstream's (quota evaluators and
// resourcequota.CheckRequest); the evaluator around them is new, since
// upstream's queues requests by namespace without a logical cluster and asks
// with contexts of its own.
//
// A charge is a write of the quota's status with the resource version that the
// check saw: of two requests for the last unit one wins, also on two servers.
// In one server the requests of a namespace with quotas go one after the other,
// so that they do not waste each other's checks.
//
// What was charged for a request that failed later, and what was deleted, is
// credited by pkg/controllers/resourcequota.
package quota
