package controller

import "sync"

// Variable holds a value that changes while a program runs, and notifies who works
// with an earlier one.
type Variable[T comparable] struct {
	mu      sync.Mutex
	value   T
	changed chan struct{}
}

// NewVariable makes one that holds value.
func NewVariable[T comparable](value T) *Variable[T] {
	return &Variable[T]{value: value, changed: make(chan struct{})}
}

// Current returns the value of now.
func (v *Variable[T]) Current() T {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.value
}

// Changed is closed once there is another value than the given one.
func (v *Variable[T]) Changed(than T) <-chan struct{} {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.value == than {
		return v.changed
	}
	now := make(chan struct{})
	close(now)
	return now
}

// Set puts another value in its place. Whoever does is the only one.
func (v *Variable[T]) Set(value T) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.value == value {
		return
	}
	v.value = value
	close(v.changed)
	v.changed = make(chan struct{})
}
