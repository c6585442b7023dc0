package crds

import (
	"regexp"
	"sync/atomic"
	_ "unsafe" // for go:linkname

	_ "k8s.io/kube-openapi/pkg/validation/validate" // which remembers
)

// mostRemembered is how many patterns of schemas are remembered. Each has up to work.MostInstructions of some 26 bytes;
// all operators that were measured have fewer than this together.
const mostRemembered = 500

// remembered are the patterns that upstream's library has compiled, of all logical clusters. It forgets none,
// and copies all of them for each that is new: definitions that come and go would fill the memory. What is
// forgotten is compiled again when it is met.
//
//go:linkname remembered k8s.io/kube-openapi/pkg/validation/validate.reDict
var remembered atomic.Value

// forgetPatterns forgets them when they are too many.
func forgetPatterns() {
	if all, ok := remembered.Load().(map[string]*regexp.Regexp); ok && len(all) > mostRemembered {
		remembered.Store(map[string]*regexp.Regexp{})
	}
}
