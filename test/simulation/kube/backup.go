package kube

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Backup is all that is stored, and how far it had come.
type Backup struct {
	Objects  map[Key]Object
	revision int64
	logs     map[schema.GroupResource][]Event
}

// Backup returns what a later Restore or Rewind brings back.
func (s *Server) Backup() *Backup {
	b := &Backup{Objects: maps.Clone(s.objects), revision: s.revision, logs: map[schema.GroupResource][]Event{}}
	for gr, log := range s.logs {
		b.logs[gr] = slices.Clip(log)
	}
	return b
}

// Restore makes everything as it was, with the same UIDs. As it should be done
// with a real store, revisions go on from where they are.
func (s *Server) Restore(by string, b *Backup) {
	for _, e := range s.differences(by, b) {
		if e.New != nil {
			e.New = e.New.DeepCopyObject().(Object)
		}
		s.commit(e)
	}
}

// Rewind makes everything as it was, the revision, too, as if the files of the store
// had been put back: what changes from now on has revisions that others have seen
// before, with other content. Nothing is told to watches.
func (s *Server) Rewind(by string, b *Backup) {
	s.revision = b.revision
	for gr := range s.logs { // not what is left of it: another backup may have come between
		s.logs[gr] = slices.Clone(b.logs[gr])
	}
	for _, e := range s.differences(by, b) {
		e.Revision, e.At = s.revision, s.Now()
		s.writes++
		s.set(e)
		if s.Audit != nil {
			s.Audit(e)
		}
	}
}

// differences are the changes that bring a backup back, in order: first what was
// not there goes.
func (s *Server) differences(by string, b *Backup) (changes []Event) {
	for _, k := range slices.SortedFunc(maps.Keys(s.objects), compare) {
		old := s.objects[k]
		if then := b.Objects[k]; then == nil || then.GetUID() != old.GetUID() {
			changes = append(changes, Event{By: by, Key: k, Old: old})
		}
	}
	for _, k := range slices.SortedFunc(maps.Keys(b.Objects), compare) {
		old, then := s.objects[k], b.Objects[k]
		if old == then {
			continue
		}
		if old != nil && old.GetUID() != then.GetUID() {
			old = nil // it went before
		}
		changes = append(changes, Event{By: by, Key: k, Old: old, New: then})
	}
	return changes
}
