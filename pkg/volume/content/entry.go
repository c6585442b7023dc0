package content

import (
	"bytes"
	"errors"
	"fmt"
)

const (
	// BlockSize is the size of a block, and what its offset is a multiple of. Blocks of zeros are
	// left out: whether they are kept or are holes is up to each file system.
	BlockSize = 64 << 10
	// MaxPath bounds the name of an entry in its volume, and what a link says.
	MaxPath = 4096
	// maxMode are the bits of a mode: permissions, and setuid, setgid and sticky.
	maxMode = 0o7777
)

// Kind is what an entry is.
type Kind string

const (
	Directory Kind = "directory"
	File      Kind = "file"
	// Symlink says Target, which is not looked at.
	Symlink Kind = "symlink"
	// Same is another name of the file Target, which came before.
	Same Kind = "same"
)

// Entry is a file, directory or link. Times are kept to the second; names are bytes.
type Entry struct {
	// Path is relative to the volume, whose own is ".".
	Path   []byte `json:"path"`
	Kind   Kind   `json:"kind"`
	Mode   uint32 `json:"mode"`
	UID    uint32 `json:"uid"`
	GID    uint32 `json:"gid"`
	Size   int64  `json:"size,omitempty"`
	Time   int64  `json:"time"`
	Target []byte `json:"target,omitempty"`
}

var root = []byte(".")

// validate says what is wrong with an entry for itself.
func (e Entry) validate() error {
	switch {
	case !validPath(e.Path):
		return errors.New("an entry has no name that a file of a volume can have")
	case e.Mode > maxMode:
		return errors.New("an entry has a mode that no file has")
	case e.Kind != File && e.Size != 0, e.Size < 0:
		return errors.New("an entry has a size that it cannot have")
	}
	switch e.Kind {
	case Directory, File:
		if len(e.Target) > 0 {
			return errors.New("only links have a target")
		}
	case Symlink:
		if len(e.Target) == 0 || len(e.Target) > MaxPath || bytes.IndexByte(e.Target, 0) >= 0 {
			return errors.New("a symbolic link has no target that one can have")
		}
	case Same:
		if !validPath(e.Target) || Compare(e.Target, e.Path) >= 0 {
			return errors.New("a second name is not of a file that came before")
		}
	default:
		return fmt.Errorf("an entry is of the unknown kind %.32q", string(e.Kind))
	}
	return nil
}

// validPath says that a path leads to somewhere in a volume, in the one way to write it.
func validPath(path []byte) bool {
	if bytes.Equal(path, root) {
		return true
	}
	if len(path) == 0 || len(path) > MaxPath || bytes.IndexByte(path, 0) >= 0 {
		return false
	}
	for part := range bytes.SplitSeq(path, []byte("/")) {
		if len(part) == 0 || bytes.Equal(part, root) || bytes.Equal(part, []byte("..")) {
			return false
		}
	}
	return true
}

// Compare orders paths: a directory is before what is in it, and that is by names.
func Compare(a, b []byte) int {
	if bytes.Equal(a, root) || bytes.Equal(b, root) {
		switch {
		case bytes.Equal(a, b):
			return 0
		case bytes.Equal(a, root):
			return -1
		}
		return 1
	}
	for {
		partA, restA, moreA := bytes.Cut(a, []byte("/"))
		partB, restB, moreB := bytes.Cut(b, []byte("/"))
		if c := bytes.Compare(partA, partB); c != 0 {
			return c
		}
		switch {
		case !moreA && !moreB:
			return 0
		case !moreA:
			return -1
		case !moreB:
			return 1
		}
		a, b = restA, restB
	}
}

// Parent is the directory of a path, and that of the volume for what is in it.
func Parent(path []byte) []byte {
	if i := bytes.LastIndexByte(path, '/'); i >= 0 {
		return path[:i]
	}
	return root
}
