package syncer

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/atoll-dev/atoll/pkg/workload"
)

const (
	// shortDelay is when something is looked at again that no watch reports.
	shortDelay = 100 * time.Millisecond
	// clashDelay is when a name is tried again that something has which stays.
	clashDelay = time.Second
)

// Clash is a mirror whose name is taken in the logical cluster.
type Clash struct {
	Target string
	Kind   workload.Kind
	// Name is that of what is mirrored.
	Name string
	// Physical is what is to be mirrored.
	Physical *unstructured.Unstructured
	// Existing is what has the name, as far as the target sees it; nil if it does not.
	Existing *unstructured.Unstructured
	// Tries is how often it was tried to make the mirror.
	Tries int
}

// Resolve says under which name to make the mirror, or when to look again.
//
//	what has the name, as the target sees it   tries  do
//	mirrors something of the target            any    look again at once: it is of a predecessor
//	                                                  that is on its way out, or of this very one
//	is the object whose copy is below          any    look again in a while: that it is a copy was
//	                                                  not known yet
//	else                                       1      the same name: it may be gone meanwhile
//	else                                       2      <name>.<target>: it is somebody else's
//	else                                       more   look again in a while
func (c Clash) Resolve() (name string, after time.Duration) {
	if c.Existing != nil {
		mark, marked := MarkOf(c.Kind.GroupResource(), c.Physical)
		switch {
		case MirroredUID(c.Target, c.Existing) != "":
			return "", shortDelay
		case marked && mark.UID == c.Existing.GetUID():
			return "", clashDelay
		}
	}
	switch c.Tries {
	case 1:
		return c.Name, 0
	case 2:
		return SecondName(c.Name, c.Target), 0
	}
	return "", clashDelay
}

// SecondName is that of a mirror whose first one, that of what it mirrors, somebody else has.
func SecondName(name, target string) string { return name + "." + target }

// FirstMirror is the one of several mirrors of one object that everybody means: one that is
// being deleted, which is somebody's word about what is mirrored, or else the first by
// name; nil if there is none.
func FirstMirror(mirrors []*unstructured.Unstructured) *unstructured.Unstructured {
	if len(mirrors) == 0 {
		return nil
	}
	return slices.MinFunc(mirrors, func(a, b *unstructured.Unstructured) int {
		if deleting := a.GetDeletionTimestamp() != nil; deleting != (b.GetDeletionTimestamp() != nil) {
			if deleting {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
	})
}

// NamesBelow are the names that an object below may have whose mirror has the name.
func NamesBelow(mirror, target string) []string {
	if name, ok := strings.CutSuffix(mirror, "."+target); ok {
		return []string{mirror, name}
	}
	return []string{mirror}
}
