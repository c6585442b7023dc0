package controller

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Allowance bounds what informers hold of a server that is not trusted, all together. What
// is over it is not dropped, as an informer that lacks objects would say that they are
// gone: the first object too many is kept, and from then on its informers take nothing
// until they are ended. Whoever made them looks at Exceeded.
type Allowance struct {
	more func(context.Context) Held

	mu   sync.Mutex
	held Held
	// allowed is what more said last.
	allowed  Held
	exceeded chan struct{}
	why      error
}

// Held is a number of objects, and about how many bytes of memory they take.
type Held struct{ Objects, Bytes int64 }

func (h Held) within(most Held) bool { return h.Objects <= most.Objects && h.Bytes <= most.Bytes }

// NewAllowance allows least in any case. When that, or what more said before, is not enough,
// more is asked; it may wait until it knows, up to the end of its context.
func NewAllowance(least Held, more func(context.Context) Held) *Allowance {
	return &Allowance{more: more, allowed: least, exceeded: make(chan struct{})}
}

// Exceeded is closed when there is too much; Err says what.
func (a *Allowance) Exceeded() <-chan struct{} { return a.exceeded }

// Err is nil before Exceeded.
func (a *Allowance) Err() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.why
}

// Held is what there is now.
func (a *Allowance) Held() Held {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.held
}

// wait returns when more may be taken; false says that ctx ended before. It is called after
// something was.
func (a *Allowance) wait(ctx context.Context) bool {
	if a == nil {
		return true
	}
	a.mu.Lock()
	ask := !a.held.within(a.allowed) && a.why == nil
	a.mu.Unlock()
	if ask {
		a.decide(ctx, a.more(ctx))
	}
	select {
	case <-a.exceeded:
		<-ctx.Done()
		return false
	default:
		return ctx.Err() == nil
	}
}

// decide compares what there is with what may be.
func (a *Allowance) decide(ctx context.Context, most Held) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if ctx.Err() != nil || a.why != nil {
		return // what was said at the end of a context may be said without knowing
	}
	a.allowed = most
	if !a.held.within(most) {
		a.why = fmt.Errorf("%d objects of about %d MiB in memory, of %d and %d MiB that are allowed", a.held.Objects, a.held.Bytes>>20, most.Objects, most.Bytes>>20)
		close(a.exceeded)
	}
}

// change notes that an object took the place of another one; either may be nil.
func (a *Allowance) change(old, next any) {
	if a == nil {
		return
	}
	gone, come := heldBy(old), heldBy(next)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.held.Objects += come.Objects - gone.Objects
	a.held.Bytes += come.Bytes - gone.Bytes
}

func heldBy(obj any) Held {
	if obj == nil {
		return Held{}
	}
	return Held{Objects: 1, Bytes: weigh(obj)}
}

// What a string, a value in a list, and an entry of a map take beside their contents.
const (
	weightOfValue = 24
	weightOfEntry = 64
)

// weigh is about how many bytes of memory an object takes.
func weigh(obj any) int64 {
	const factor = 3 // of a typed object over its bytes as protobuf
	switch v := obj.(type) {
	case *unstructured.Unstructured:
		return weigh(v.Object)
	case interface{ Size() int }:
		return factor * int64(v.Size())
	case map[string]any:
		n := int64(weightOfEntry)
		for key, value := range v {
			n += weightOfEntry + int64(len(key)) + weigh(value)
		}
		return n
	case []any:
		n := int64(weightOfValue)
		for _, value := range v {
			n += weightOfValue + weigh(value)
		}
		return n
	case string:
		return int64(len(v))
	}
	return weightOfValue
}
