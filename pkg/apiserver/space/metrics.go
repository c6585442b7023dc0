package space

import (
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

var (
	readOnly = metrics.NewGauge(&metrics.GaugeOpts{
		Name: "atoll_storage_read_only", StabilityLevel: metrics.ALPHA,
		Help: "1 while the server refuses users' writes for lack of room, 2 while it refuses all writes.",
	})
	freeBytes = metrics.NewGauge(&metrics.GaugeOpts{
		Name: "atoll_storage_free_bytes", StabilityLevel: metrics.ALPHA,
		Help: "What the file system of the data directory had left when somebody wrote last.",
	})
	filesLeft = metrics.NewGauge(&metrics.GaugeOpts{
		Name: "atoll_storage_file_descriptors_left", StabilityLevel: metrics.ALPHA,
		Help: "How many file descriptors the process might still have opened when somebody wrote last.",
	})
)

func init() { legacyregistry.MustRegister(readOnly, freeBytes, filesLeft) }

func observe(r Reading, l level) {
	readOnly.Set(float64(l))
	freeBytes.Set(float64(r.Free))
	filesLeft.Set(float64(r.FilesLeft))
}
