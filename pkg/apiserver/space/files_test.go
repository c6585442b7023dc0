package space

import (
	"os"
	"testing"
)

func TestOpenFilesAreCounted(t *testing.T) {
	files, err := OpenFiles()
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	before, limit, err := files.Left()
	if err != nil {
		t.Fatal(err)
	}
	if limit == 0 {
		t.Skip("this system has no /proc/self/fd, so nobody knows how many files are open")
	}
	const opened = 20
	for range opened {
		f, err := os.Open(os.DevNull)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close() //nolint:gocritic // all of them, at the end
	}
	after, _, err := files.Left()
	if err != nil {
		t.Fatal(err)
	}
	if before-after != opened || before >= limit {
		t.Errorf("%d of %d were left, then %d with %d more open", before, limit, after, opened)
	}
}
