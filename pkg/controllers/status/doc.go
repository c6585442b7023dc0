// Package status writes the status of logical objects: it merges what their
// Copies say (syncer.Summarize) whenever a Copy or the targets of an object
// change, and writes a difference only. It also removes Jobs that finished longer
// ago than they ask to be kept, which no physical cluster does.
//
// Invariant: the status never says more than the targets that shall keep a copy
// have said; who loses a target loses its share in the same pass.
package status
