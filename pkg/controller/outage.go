package controller

import "time"

// Outage is that an informer has no watch, and knows nothing that is newer.
type Outage struct {
	// Name is that of the informer.
	Name string
	// Since is when the first of the attempts to list or to watch failed of which none has succeeded since.
	Since time.Time
	// Err is how the last of them failed.
	Err error
}

// Outage is that of the informer now; ok is false while it watches, and before it has tried to.
//
//	list      watch     then
//	fails     any       an outage begins, or goes on
//	succeeds  fails     the same: each list is the news of its time only
//	any       succeeds  it is over
func (i *Informer[T]) Outage() (o Outage, ok bool) {
	o = i.source.outageNow()
	o.Name = i.name
	return o, o.Err != nil
}

func (s *source) outageNow() Outage {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.outage
}

// answered notes how an attempt to list or to watch ended.
func (s *source) answered(err error, watches bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err != nil && s.outage.Err == nil:
		s.outage = Outage{Since: time.Now(), Err: err}
	case err != nil:
		s.outage.Err = err
	case watches:
		s.outage = Outage{}
	}
}
