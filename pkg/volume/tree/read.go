//go:build linux

package tree

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/atoll-dev/atoll/pkg/volume/content"
)

const (
	// lostAndFound is what a file system makes by itself, as long as nothing is in it.
	lostAndFound = "lost+found"
	// maxNames bounds the names in one directory, and the files of several names: they are held
	// in memory.
	maxNames = 1 << 20
	// seekData is the whence that finds the next bytes that are no hole.
	seekData = unix.SEEK_DATA
)

// reader reads one volume.
type reader struct {
	root    *os.Root
	to      *content.Writer
	device  uint64
	links   map[uint64]string
	omitted int64
	block   []byte
}

// Read writes all of a volume to a stream, but for its beginning.
func Read(ctx context.Context, root *os.Root, to *content.Writer) (content.Sum, error) {
	r := &reader{root: root, to: to, links: map[uint64]string{}, block: make([]byte, content.BlockSize)}
	info, err := root.Lstat(".")
	if err != nil {
		return content.Sum{}, fmt.Errorf("looking at the volume: %w", err)
	}
	r.device = info.Sys().(*syscall.Stat_t).Dev
	if err := r.directory(ctx, ".", info); err != nil {
		return content.Sum{}, err
	}
	return to.End(r.omitted)
}

// directory writes a directory and what is in it.
func (r *reader) directory(ctx context.Context, name string, info fs.FileInfo) error {
	f, err := r.open(name, info)
	if err != nil {
		return err
	}
	names, err := namesIn(f)
	if err == nil {
		err = plain(f)
	}
	f.Close()
	if err == nil {
		err = r.to.Entry(entryOf(name, content.Directory, info))
	}
	if err != nil {
		return fmt.Errorf("directory %q: %w", name, err)
	}
	for _, child := range names {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := r.child(ctx, path.Join(name, child)); err != nil {
			return err
		}
	}
	if f, err = r.open(name, info); err != nil {
		return err
	}
	defer f.Close()
	if err := unchanged(f, info); err != nil {
		return fmt.Errorf("directory %q: %w", name, err)
	}
	return nil
}

var errUsed = errors.New("it changed while it was read: something uses the volume")

// unchanged is an error if a file was written, or a directory got or lost something, since it was looked at.
func unchanged(f *os.File, was fs.FileInfo) error {
	is, err := f.Stat()
	if err != nil {
		return err
	}
	a, b := was.Sys().(*syscall.Stat_t), is.Sys().(*syscall.Stat_t)
	if !os.SameFile(was, is) || a.Size != b.Size || a.Mtim != b.Mtim || a.Ctim != b.Ctim {
		return errUsed
	}
	return nil
}

// child writes what a directory has.
//
//	what it is               then
//	a directory, a file,     it is written
//	a symbolic link
//	lost+found, empty        nothing: the file system has it
//	a socket, a pipe         it is counted: there is nothing in it, and whoever uses it makes it
//	a device, anything else  an error
//	of another file system   an error
func (r *reader) child(ctx context.Context, name string) error {
	info, err := r.root.Lstat(name)
	if err != nil {
		return fmt.Errorf("looking at %q: %w", name, err)
	}
	if info.Sys().(*syscall.Stat_t).Dev != r.device {
		return fmt.Errorf("%q is of another file system", name)
	}
	switch info.Mode().Type() {
	case fs.ModeDir:
		if name == lostAndFound {
			if empty, err := isEmpty(r.root, name); err != nil || empty {
				return err
			}
		}
		return r.directory(ctx, name, info)
	case 0:
		return r.file(ctx, name, info)
	case fs.ModeSymlink:
		target, err := r.root.Readlink(name)
		if err != nil {
			return fmt.Errorf("reading the link %q: %w", name, err)
		}
		e := entryOf(name, content.Symlink, info)
		e.Target, e.Time = []byte(target), 0
		return r.to.Entry(e)
	case fs.ModeSocket, fs.ModeNamedPipe:
		r.omitted++
		return nil
	}
	return fmt.Errorf("%q is a device, which is not copied: remove it from the volume", name)
}

func (r *reader) file(ctx context.Context, name string, info fs.FileInfo) error {
	stat := info.Sys().(*syscall.Stat_t)
	if stat.Nlink > 1 {
		if first, ok := r.links[stat.Ino]; ok {
			e := entryOf(name, content.Same, info)
			e.Size, e.Target = 0, []byte(first)
			return r.to.Entry(e)
		}
		if len(r.links) >= maxNames {
			return fmt.Errorf("more than %d files have several names", maxNames)
		}
		r.links[stat.Ino] = name
	}
	f, err := r.open(name, info)
	if err != nil {
		return err
	}
	defer f.Close()
	if err = plain(f); err == nil {
		err = r.to.Entry(entryOf(name, content.File, info))
	}
	if err == nil {
		err = r.blocks(ctx, f, info.Size())
	}
	if err == nil {
		err = unchanged(f, info)
	}
	if err != nil {
		return fmt.Errorf("file %q: %w", name, err)
	}
	return nil
}

// blocks writes what a file has; holes are not read.
func (r *reader) blocks(ctx context.Context, f *os.File, size int64) error {
	for offset := int64(0); offset < size; offset += content.BlockSize {
		if err := ctx.Err(); err != nil {
			return err
		}
		data, err := f.Seek(offset, seekData)
		switch {
		case errors.Is(err, syscall.ENXIO):
			return nil // holes to its end
		case err == nil:
			offset = data / content.BlockSize * content.BlockSize
		}
		if offset >= size {
			return nil
		}
		block := r.block[:min(content.BlockSize, size-offset)]
		if _, err := f.ReadAt(block, offset); err != nil {
			return err
		}
		if err := r.to.Block(offset, block); err != nil {
			return err
		}
	}
	return nil
}

// open opens what was looked at, and nothing else that has its name by now.
func (r *reader) open(name string, info fs.FileInfo) (*os.File, error) {
	f, err := r.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, fmt.Errorf("opening %q: %w", name, err)
	}
	is, err := f.Stat()
	if err == nil && !os.SameFile(is, info) {
		err = errUsed
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("opening %q: %w", name, err)
	}
	return f, nil
}

func namesIn(f *os.File) ([]string, error) {
	var names []string
	for {
		some, err := f.Readdirnames(4096)
		names = append(names, some...)
		switch {
		case errors.Is(err, io.EOF):
			slices.Sort(names)
			return names, nil
		case err != nil:
			return nil, err
		case len(names) > maxNames:
			return nil, fmt.Errorf("more than %d files are in it", maxNames)
		}
	}
}

func isEmpty(root *os.Root, name string) (bool, error) {
	f, err := root.Open(name)
	if err != nil {
		return false, err
	}
	defer f.Close()
	names, err := namesIn(f)
	return len(names) == 0, err
}

// plain says what a file has beside content, owner and mode: all of that would be lost.
func plain(f *os.File) error {
	names := make([]byte, 64<<10)
	n, err := unix.Flistxattr(int(f.Fd()), names)
	switch {
	case errors.Is(err, unix.ENOTSUP):
		return nil
	case err != nil:
		return fmt.Errorf("reading its extended attributes: %w", err)
	}
	for attribute := range strings.SplitSeq(strings.TrimRight(string(names[:n]), "\x00"), "\x00") {
		if attribute != "" && attribute != "security.selinux" { // of its node
			return fmt.Errorf("it has the extended attribute %q, which is not copied: remove that first", attribute)
		}
	}
	return nil
}

func entryOf(name string, kind content.Kind, info fs.FileInfo) content.Entry {
	stat := info.Sys().(*syscall.Stat_t)
	e := content.Entry{Path: []byte(name), Kind: kind, Mode: stat.Mode & 0o7777, UID: stat.Uid, GID: stat.Gid, Time: info.ModTime().Unix()}
	if kind == content.File {
		e.Size = info.Size()
	}
	return e
}
