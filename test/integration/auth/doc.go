// Package auth tests, against the real server, who may do what in a logical
// cluster.
package auth
