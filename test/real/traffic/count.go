package traffic

import (
	"fmt"
	"sync"
	"time"
)

// Count is what one consumer met.
type Count struct {
	Name string

	mu       sync.Mutex
	done     int
	longest  time.Duration
	failures []string
}

// maxFailures is how many failures are kept as sentences; all are counted.
const maxFailures = 10

func (c *Count) succeed(took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.done++
	c.longest = max(c.longest, took)
}

func (c *Count) fail(target string, err error) { c.failAs(fmt.Sprintf("%s: %v", target, err)) }

func (c *Count) failAs(why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failures = append(c.failures, time.Now().UTC().Format("15:04:05.000 ")+why)
}

// Result is what a consumer met in a while.
type Result struct {
	Name         string
	Done, Failed int
	// Longest is the longest time between a request and its answer, or between two lines of
	// a stream; zero where nobody measured it.
	Longest time.Duration
	// First are how the first ones failed.
	First []string
}

// Take is what the consumer met since it was asked last.
func (c *Count) Take() Result {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := Result{Name: c.Name, Done: c.done, Failed: len(c.failures), Longest: c.longest, First: c.failures[:min(len(c.failures), maxFailures)]}
	c.done, c.longest, c.failures = 0, 0, nil
	return r
}
