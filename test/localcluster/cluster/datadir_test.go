package cluster

import (
	"net"
	"path/filepath"
	"strings"
	"testing"
)

func TestADataDirectoryThatIsInUseIsRefused(t *testing.T) {
	dir := t.TempDir()
	first, err := openDataDir(Options{Name: "east", DataDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	_, err = openDataDir(Options{Name: "east", DataDir: dir})
	wantError(t, err, "is in use by another localcluster")

	first.close()
	again, err := openDataDir(Options{Name: "east", DataDir: dir})
	if err != nil {
		t.Fatalf("a released directory is refused: %v", err)
	}
	again.close()
}

func TestADataDirectoryKeepsItsNameAndPort(t *testing.T) {
	dir := t.TempDir()
	d, err := openDataDir(Options{Name: "east", DataDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.save(12345); err != nil {
		t.Fatal(err)
	}
	d.close()

	_, err = openDataDir(Options{Name: "west", DataDir: dir})
	wantError(t, err, `belongs to the cluster "east", not "west"`)

	d, err = openDataDir(Options{Name: "east", DataDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	if d.settings.Port != 12345 {
		t.Errorf("port is %d after a restart, want 12345", d.settings.Port)
	}
}

func TestATakenPortIsNamed(t *testing.T) {
	taken, err := net.Listen("tcp", net.JoinHostPort(loopback, "0"))
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	_, err = dataDir{}.listen(loopback, taken.Addr().(*net.TCPAddr).Port)
	wantError(t, err, "is in use by another program")
}

func TestBadOptionsAreRefused(t *testing.T) {
	_, err := openDataDir(Options{Name: "East Side", DataDir: t.TempDir()})
	wantError(t, err, `--name "East Side"`)
	_, err = openDataDir(Options{Name: "east"})
	wantError(t, err, "--data-dir is required")
	_, err = openDataDir(Options{Name: "east", DataDir: filepath.Join("/proc", "nowhere")})
	wantError(t, err, "making the data directory")
}

func wantError(t *testing.T, err error, part string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), part) {
		t.Errorf("error is %v, want one with %q", err, part)
	}
}
