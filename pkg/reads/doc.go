// Package reads has those who ask for the same at the same time share what is read for them. It differs from
// golang.org/x/sync/singleflight in that nobody gets what was read before he asked, unless he asks for that: whoever has just
// written something finds it.
package reads
