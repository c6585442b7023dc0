package etcd

import (
	"path/filepath"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/fileutil"
	"k8s.io/klog/v2"
)

const (
	// purgeInterval is how often old files are looked for, and tried again after a failure.
	purgeInterval = 30 * time.Second
	// keptFiles is how many files of each kind are kept, as etcd does by itself.
	keptFiles = 5
)

// purge removes the segments of the log and the snapshots that nothing reads any more,
// until stop is closed. Etcd has such a loop of its own, which ends the process when it
// cannot open a directory: a moment without a free file descriptor would be the end. This
// one tries again.
func purge(dir string, stop <-chan struct{}) {
	for _, kind := range []struct{ dir, suffix string }{
		{"wal", "wal"}, {"snap", "snap.db"}, {"snap", "snap"},
	} {
		go func() {
			at := filepath.Join(dir, "member", kind.dir)
			for {
				failed := fileutil.PurgeFile(nil, at, kind.suffix, keptFiles, purgeInterval, stop)
				select {
				case err := <-failed:
					klog.Background().Error(err, "Removing old files of etcd failed, it is tried again", "kind", kind.suffix)
				case <-stop:
					return
				}
				select {
				case <-time.After(purgeInterval):
				case <-stop:
					return
				}
			}
		}()
	}
}
