// Package processors says how many processors this process has, and lets more goroutines run
// at a time than that.
package processors

import (
	"os"
	"runtime"
)

const (
	// most is up to how many goroutines run at a time by Spread, where there are fewer processors.
	most = 8
	// perProcessor is how many of them there are for each processor, at most.
	perProcessor = 2
)

// count is GOMAXPROCS before anybody changed it: what the machine, the container or the
// operator says.
var count = runtime.GOMAXPROCS(0)

// Count is how many processors there are to compute on, whatever Spread did.
func Count() int { return count }

// Spread lets more goroutines run at a time than there are processors, where these are few, so
// that the kernel divides them. Go itself takes a processor from who computes after ten
// milliseconds, and looks only then for what the network brought, if nobody is idle: on
// two processors of which one is always busy, each of the ten steps of a small request waits for as long. The
// kernel gives a processor at once to a thread that the network wakes.
//
// An operator who sets GOMAXPROCS gets that. So does a container that may have fewer processors than
// there are: more threads would have its time sooner, and then stand still.
func Spread() {
	if os.Getenv("GOMAXPROCS") != "" || count < runtime.NumCPU() {
		return
	}
	runtime.GOMAXPROCS(running(count))
}

// GiveWay is called by who was handed a place by the one who had it before. He would be next on that one's
// processor, before everybody whom the network has woken meanwhile, and so would the next one, for as long as
// somebody waits for such a place.
func GiveWay() { runtime.Gosched() }

// running is how many goroutines run at a time on so many processors.
func running(processors int) int {
	return max(processors, min(perProcessor*processors, most))
}
