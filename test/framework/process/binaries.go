package process

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
)

// Root is the root of the repository.
func Root() string {
	_, file, _, ok := runtime.Caller(0)
	if !ok {
		panic("the caller is unknown")
	}
	return filepath.Join(filepath.Dir(file), "..", "..", "..")
}

// Binary is the path of a binary in bin/.
func Binary(name string) string { return filepath.Join(Root(), "bin", name) }

// Missing says which of the binaries named are not built, if any.
func Missing(names ...string) error {
	for _, name := range names {
		if _, err := os.Stat(Binary(name)); err != nil {
			return fmt.Errorf("bin/%s is not built: run make build", name)
		}
	}
	return nil
}
