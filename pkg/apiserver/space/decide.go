package space

import "fmt"

const (
	mib = 1 << 20
	// floor is what is never used: etcd allocates the next 64 MiB of its log at once,
	// and ends if it cannot.
	floor = 96 * mib
	// low is below what users' writes end, enough from where they begin again. Between
	// low and floor there is room for what ends deletions.
	low    = 192 * mib
	enough = 256 * mib
	// Of what the database may hold, in per cent.
	highUse, lowUse = 90, 80
	// fewFiles is how many file descriptors are never used by writes: etcd opens some for
	// the next segment of its log, and ends if it cannot. enoughFiles is from where all
	// writes go on.
	fewFiles, enoughFiles = 32, 64
)

// Reading is how much room there is.
type Reading struct {
	// Free is what the file system of the data directory has left, in bytes.
	Free uint64
	// Used and Quota are what the database holds and what it may hold, in bytes.
	Used, Quota uint64
	// FilesLeft is how many file descriptors the process may still open, of FilesLimit; 0 if
	// nobody knows.
	FilesLeft, FilesLimit uint64
}

// level says what may be written.
type level int

const (
	// writable: everything.
	writable level = iota
	// deletions: what users delete, and what the server and syncers write to end it.
	deletions
	// nothing.
	nothing
)

// decide returns what may be written and, if not everything, why.
//
//	free          files left         in use          before      level
//	below floor   any                any             any         nothing
//	any           below fewFiles     any             any         nothing
//	below low     any                any             any         deletions
//	below enough  any                any             deletions   deletions
//	else          below enoughFiles  any             deletions   deletions
//	else          else               from highUse %  any         deletions
//	else          else               from lowUse %   deletions   deletions
//	else          else               else            any         writable
//
// "nothing" before counts as "deletions".
func decide(r Reading, before level) (level, string) {
	limited := before != writable
	use := uint64(0)
	if r.Quota > 0 {
		use = r.Used * 100 / r.Quota
	}
	disk := fmt.Sprintf("the disk of the data directory has %d MiB left: free some space there, writes go on from %d MiB", r.Free/mib, uint64(enough/mib))
	files := fmt.Sprintf("the process has %d of its %d file descriptors left: close connections, or raise the limit (ulimit -n, LimitNOFILE), writes go on from %d",
		r.FilesLeft, r.FilesLimit, enoughFiles)
	known := r.FilesLimit > 0
	switch {
	case r.Free < floor:
		return nothing, disk
	case known && r.FilesLeft < fewFiles:
		return nothing, files
	case r.Free < low, limited && r.Free < enough:
		return deletions, disk
	case known && limited && r.FilesLeft < enoughFiles:
		return deletions, files
	case use >= highUse, limited && use >= lowUse:
		return deletions, fmt.Sprintf("the database holds %d MiB, %d%% of what it may: delete what is not needed, writes go on below %d%%, some minutes after",
			r.Used/mib, use, lowUse)
	}
	return writable, ""
}
