package pki

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func digestsOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	p, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	digests, err := p.Digests()
	if err != nil {
		t.Fatal(err)
	}
	return digests
}

func TestCopiedKeysHaveTheSameDigestsAndEachOtherKeyAnotherOne(t *testing.T) {
	first, second := t.TempDir(), t.TempDir()
	want := digestsOf(t, first)
	if err := os.CopyFS(filepath.Join(second, "copied"), os.DirFS(first)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, digestsOf(t, filepath.Join(second, "copied"))); diff != "" {
		t.Errorf("copied keys (-want +got):\n%s", diff)
	}
	other := digestsOf(t, second)
	seen := map[string]string{}
	for _, digests := range []map[string]string{want, other} {
		for file, digest := range digests {
			if before := seen[digest]; before != "" {
				t.Errorf("%s and %s have one digest", before, file)
			}
			seen[digest] = file
		}
	}
	if len(want) != 4 || len(other) != 4 {
		t.Errorf("got the digests %v and %v", want, other)
	}
}
