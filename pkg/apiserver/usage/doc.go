// Package usage says in metrics which logical clusters use the server.
//
// A label with the name of a logical cluster would make as many time series as
// there are logical clusters. Here at most a hundred have their name in metrics
// at a time, those that came first; all others are counted together. One that
// asked for nothing for ten minutes gives its place to the next.
//
// Invariant: the number of series is bounded, whatever is asked. The names are
// those of logical clusters that exist, which admins of the control plane chose.
package usage
