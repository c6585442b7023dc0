// Package placement tests admission and the controllers around placement
// against the real server. The tests share one server and two physical
// clusters, "east" and "west", that exist as objects only; each test has a
// logical cluster of its own, and policies that select it by label.
package placement
