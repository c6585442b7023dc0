//go:build linux

package tree

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/atoll-dev/atoll/pkg/volume/content"
)

// Clear removes everything in a volume.
func Clear(root *os.Root) error {
	f, err := root.Open(".")
	if err != nil {
		return fmt.Errorf("opening the volume: %w", err)
	}
	names, err := namesIn(f)
	f.Close()
	if err != nil {
		return fmt.Errorf("reading the volume: %w", err)
	}
	for _, name := range names {
		if info, err := root.Lstat(name); err == nil && name == lostAndFound && info.IsDir() {
			if empty, err := isEmpty(root, name); err == nil && empty {
				continue
			}
		}
		if err := root.RemoveAll(name); err != nil {
			return fmt.Errorf("removing what an earlier attempt left: %w", err)
		}
	}
	return nil
}

// writer fills one volume.
type writer struct {
	root *os.Root
	file *os.File
	last content.Entry // of file
	// within are the directories that are being filled.
	within []content.Entry
}

// Write fills an empty volume with a stream that has begun, and has it kept by the file system.
func Write(ctx context.Context, root *os.Root, from *content.Reader) (content.Sum, error) {
	w := &writer{root: root}
	defer func() {
		if w.file != nil {
			w.file.Close()
		}
	}()
	for {
		if err := ctx.Err(); err != nil {
			return content.Sum{}, err
		}
		item, err := from.Next()
		if err != nil {
			return content.Sum{}, err
		}
		switch {
		case item.Sum != nil:
			return *item.Sum, w.end()
		case item.Entry != nil:
			err = w.entry(*item.Entry)
		default:
			_, err = w.file.WriteAt(item.Block, item.Offset)
		}
		if err != nil {
			return content.Sum{}, fmt.Errorf("writing: %w", err)
		}
	}
}

func (w *writer) entry(e content.Entry) error {
	if err := w.close(); err != nil {
		return err
	}
	name, parent := string(e.Path), string(content.Parent(e.Path))
	if name == "." {
		w.within = append(w.within, e)
		return nil
	}
	for string(w.within[len(w.within)-1].Path) != parent {
		if err := w.leave(); err != nil {
			return err
		}
	}
	switch e.Kind {
	case content.Directory:
		w.within = append(w.within, e)
		if err := w.root.Mkdir(name, 0o700); err != nil && !(name == lostAndFound && errors.Is(err, fs.ErrExist)) {
			return err
		}
		return nil
	case content.File:
		f, err := w.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, 0o600)
		if err != nil {
			return err
		}
		w.file, w.last = f, e
		return f.Truncate(e.Size)
	case content.Symlink:
		if err := w.root.Symlink(string(e.Target), name); err != nil {
			return err
		}
		return w.root.Lchown(name, int(e.UID), int(e.GID))
	case content.Same:
		return w.root.Link(string(e.Target), name)
	}
	return fmt.Errorf("unknown kind %q", e.Kind)
}

// close ends the file that is being written.
func (w *writer) close() error {
	if w.file == nil {
		return nil
	}
	f := w.file
	w.file = nil
	return errors.Join(settle(f, w.last), f.Close())
}

// leave ends the directory that is being filled: what comes into one changes its time.
func (w *writer) leave() error {
	e := w.within[len(w.within)-1]
	w.within = w.within[:len(w.within)-1]
	f, err := w.root.OpenFile(string(e.Path), os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	return errors.Join(settle(f, e), f.Close())
}

// settle gives a file what it has beside its content; the mode comes after the owner, who takes
// setuid away.
func settle(f *os.File, e content.Entry) error {
	if err := f.Chown(int(e.UID), int(e.GID)); err != nil {
		return err
	}
	if err := unix.Fchmod(int(f.Fd()), e.Mode); err != nil {
		return fmt.Errorf("setting the mode of %q: %w", e.Path, err)
	}
	at := unix.NsecToTimeval(0)
	at.Sec = e.Time
	if err := unix.Futimes(int(f.Fd()), []unix.Timeval{at, at}); err != nil {
		return fmt.Errorf("setting the time of %q: %w", e.Path, err)
	}
	return nil
}

func (w *writer) end() error {
	if err := w.close(); err != nil {
		return err
	}
	for len(w.within) > 0 {
		if err := w.leave(); err != nil {
			return err
		}
	}
	f, err := w.root.Open(".")
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.Syncfs(int(f.Fd())); err != nil {
		return fmt.Errorf("having it kept: %w", err)
	}
	return nil
}

// sumOf reads a volume again.
func sumOf(ctx context.Context, root *os.Root, limit int64) (content.Sum, error) {
	return Read(ctx, root, content.NewWriter(io.Discard, limit))
}
