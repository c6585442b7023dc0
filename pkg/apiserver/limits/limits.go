package limits

import (
	"math"

	"k8s.io/apimachinery/pkg/api/resource"

	tenancy "github.com/atoll-dev/atoll/pkg/apis/tenancy/v1alpha1"
)

// The defaults: what a large installation of operators and applications uses a part of.
// Thirty logical clusters that use all of it fill the largest database of etcd.
const (
	mib = 1 << 20

	defaultObjects         = 20_000
	defaultBytes           = 256 * mib
	defaultDefinitions     = 500
	defaultDefinitionBytes = 64 * mib
	defaultWrittenBytes    = 1024 * mib
	defaultWatches         = 2_000
)

// none is a limit that is never reached, with room to compute with it.
const none = math.MaxInt64 / 4

// class is what is counted together.
type class int

const (
	objects class = iota
	// records are written by the system and by syncers, mostly: they have limits of
	// their own, so that neither takes the other's room.
	records
	definitions
	classes
)

// amount is how much there is, or may be, of a class.
type amount struct{ count, bytes int64 }

// limits are those of one logical cluster.
type limits struct {
	kept    [classes]amount
	written int64
	watches int64
}

// unlimited is what root has.
func unlimited() limits {
	l := limits{written: none, watches: none}
	for c := range l.kept {
		l.kept[c] = amount{none, none}
	}
	return l
}

// of are the limits that an admin asks for.
func of(spec tenancy.LogicalClusterLimits) limits {
	kept := amount{count(spec.Objects, defaultObjects), quantity(spec.Bytes, defaultBytes)}
	return limits{
		kept: [classes]amount{
			objects: kept, records: kept,
			definitions: {count(spec.Definitions, defaultDefinitions), quantity(spec.DefinitionBytes, defaultDefinitionBytes)},
		},
		written: quantity(spec.WrittenBytes, defaultWrittenBytes),
		watches: count(spec.Watches, defaultWatches),
	}
}

func count(asked, otherwise int64) int64 {
	switch {
	case asked < 0:
		return none
	case asked == 0:
		return otherwise
	}
	return min(asked, none)
}

func quantity(asked *resource.Quantity, otherwise int64) int64 {
	if asked == nil {
		return otherwise
	}
	return count(asked.Value(), otherwise)
}
