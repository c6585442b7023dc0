package app

import "runtime/debug"

// startGCPercent is how much garbage a starting server may have, in percent of what
// it holds.
const startGCPercent = 20

// compact has collections follow each other closely, until settle is called, which
// returns the rest to the system. The start makes what a server holds for as long
// as it lives, among more that is dropped; as nothing moves in memory, what is
// dropped late leaves holes between what stays. An operator who asked for less
// garbage still, or for no collections (GOGC), gets that.
func compact() (settle func()) {
	asked := debug.SetGCPercent(startGCPercent)
	if asked < startGCPercent {
		debug.SetGCPercent(asked)
	}
	return func() {
		debug.SetGCPercent(asked)
		debug.FreeOSMemory()
	}
}
