package simulation

import (
	"hash/fnv"
	"io"
	"testing"
	"testing/synctest"
	"time"
	_ "unsafe" // for jitter

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
)

// jitter is where apimachinery takes the jitter of its delays from. It depends on
// nothing but the time in the bubble here.
//
//go:linkname jitter k8s.io/apimachinery/pkg/util/wait.jitterRand
var jitter func() float64

func init() {
	jitter = func() float64 {
		h := fnv.New32a()
		_ = writeTime(h)
		return float64(h.Sum32()) / (1 << 32)
	}
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	// They remember when they last wrote, across bubbles.
	utilruntime.ErrorHandlers = nil
}

func writeTime(h io.Writer) error {
	b, err := time.Now().MarshalBinary()
	if err == nil {
		_, err = h.Write(b)
	}
	return err
}

// Run runs a world to its end, in a bubble of its own.
func Run(t *testing.T, o Options) (out Outcome) {
	t.Helper()
	synctest.Test(t, func(*testing.T) { out = run(o) })
	return out
}
