package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"k8s.io/apimachinery/pkg/util/validation"
)

const (
	loopback = "127.0.0.1"
	// leastDisk is what a cluster needs to start and to run for a while.
	leastDisk = 256 << 20
)

// dataDir is the locked directory of one cluster.
type dataDir struct {
	root     string
	lock     *os.File
	settings settings
}

// settings are what a cluster keeps over restarts.
type settings struct {
	Name string `json:"name"`
	Port int    `json:"port,omitempty"`
}

func (d dataDir) path(elem ...string) string {
	return filepath.Join(append([]string{d.root}, elem...)...)
}

// openDataDir makes or resumes, and locks, the directory.
func openDataDir(o Options) (d dataDir, err error) {
	if problems := validation.IsDNS1123Label(o.Name); len(problems) > 0 {
		return d, fmt.Errorf("--name %q: %s", o.Name, problems[0])
	}
	if o.DataDir == "" {
		return d, errors.New("--data-dir is required")
	}
	if d.root, err = filepath.Abs(o.DataDir); err != nil {
		return d, fmt.Errorf("resolving --data-dir: %w", err)
	}
	if err := os.MkdirAll(d.root, 0o700); err != nil {
		return d, fmt.Errorf("making the data directory: %w", err)
	}
	if err := enoughDisk(d.root); err != nil {
		return d, err
	}
	if d.lock, err = acquire(d.path("lock"), d.root); err != nil {
		return d, err
	}
	d.settings.Name = o.Name
	raw, err := os.ReadFile(d.path("cluster.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return d, nil
	}
	if err == nil {
		err = json.Unmarshal(raw, &d.settings)
	}
	switch {
	case err != nil:
		err = fmt.Errorf("reading the settings of the data directory: %w", err)
	case d.settings.Name != o.Name:
		err = fmt.Errorf("%s belongs to the cluster %q, not %q", d.root, d.settings.Name, o.Name)
	}
	if err != nil {
		d.close()
	}
	return d, err
}

// listen opens the port asked for, else the one of the last run, else a free one.
func (d dataDir) listen(bind string, port int) (net.Listener, error) {
	if port == 0 {
		port = d.settings.Port
	}
	l, err := net.Listen("tcp", net.JoinHostPort(bind, strconv.Itoa(port)))
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("port %d of %s is in use by another program; stop that, or choose a port with --port", port, bind)
	}
	if err != nil {
		return nil, fmt.Errorf("listening: %w", err)
	}
	return l, nil
}

// save keeps the port for the next run.
func (d dataDir) save(port int) error {
	d.settings.Port = port
	raw, err := json.Marshal(d.settings)
	if err != nil {
		return err
	}
	if err := os.WriteFile(d.path("cluster.json"), append(raw, '\n'), 0o600); err != nil {
		return fmt.Errorf("writing the settings: %w", err)
	}
	return nil
}

// close releases the lock.
func (d dataDir) close() {
	_ = d.lock.Close()
}

// acquire locks a file that holds the number of the process that holds it.
func acquire(path, root string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the lock file: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		holder, _ := os.ReadFile(path)
		_ = f.Close()
		return nil, fmt.Errorf("%s is in use by another localcluster (process %s)", root, strings.TrimSpace(string(holder)))
	}
	if err := f.Truncate(0); err == nil {
		_, err = fmt.Fprintln(f, os.Getpid())
	}
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("writing the lock file: %w", err)
	}
	return f, nil
}

func enoughDisk(root string) error {
	var st syscall.Statfs_t
	if err := syscall.Statfs(root, &st); err != nil {
		return fmt.Errorf("looking for free disk space: %w", err)
	}
	if free := st.Bavail * uint64(st.Bsize); free < leastDisk {
		return fmt.Errorf("the disk that holds %s has %d MiB left; a cluster needs at least %d MiB", root, free>>20, leastDisk>>20)
	}
	return nil
}
