package app

import (
	"github.com/atoll-dev/atoll/pkg/apiserver/etcd"
	"github.com/atoll-dev/atoll/pkg/apiserver/space"
)

// newRoom stops writes before what db needs is used up: the disk of the data directory,
// its quota, the file descriptors of the process.
func newRoom(dir string, db *etcd.Server, files *space.Files) *space.Guard {
	return space.NewGuard(func() (space.Reading, error) {
		free, err := space.Free(dir)
		if err != nil {
			return space.Reading{}, err
		}
		used, quota := db.Usage()
		left, limit, err := files.Left()
		return space.Reading{Free: free, Used: used, Quota: quota, FilesLeft: left, FilesLimit: limit}, err
	})
}
