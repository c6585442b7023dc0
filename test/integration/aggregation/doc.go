// Package aggregation tests aggregated APIs of logical clusters on the real
// server, with extension servers on this machine that verify who speaks for users
// as upstream's do.
package aggregation
