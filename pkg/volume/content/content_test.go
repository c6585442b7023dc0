package content

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func volume() []Entry {
	return []Entry{
		{Path: []byte("."), Kind: Directory, Mode: 0o755},
		{Path: []byte("a"), Kind: Directory, Mode: 0o2770, UID: 7, GID: 8, Time: 9},
		{Path: []byte("a/\xff"), Kind: File, Mode: 0o600, Size: 2*BlockSize + 5},
		{Path: []byte("a-b"), Kind: Symlink, Target: []byte("/etc/shadow")},
		{Path: []byte("b"), Kind: Same, Target: []byte("a/\xff")},
	}
}

// stream is one of entries, with blocks of the first file.
func stream(t *testing.T, entries []Entry, blocks map[int64][]byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := NewWriter(&out, 1<<20)
	check := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	check(w.Begin("uid"))
	for _, e := range entries {
		check(w.Entry(e))
		if e.Kind == File {
			for _, offset := range []int64{0, BlockSize, 2 * BlockSize} {
				if data, ok := blocks[offset]; ok {
					check(w.Block(offset, data))
				}
			}
		}
	}
	_, err := w.End(1)
	check(err)
	return out.Bytes()
}

func read(from []byte, limit int64) (entries []Entry, blocks map[int64][]byte, sum *Sum, err error) {
	r := NewReader(bytes.NewReader(from), limit)
	if err := r.Begin("uid"); err != nil {
		return nil, nil, nil, err
	}
	blocks = map[int64][]byte{}
	for {
		item, err := r.Next()
		switch {
		case err != nil:
			return entries, blocks, nil, err
		case item.Sum != nil:
			return entries, blocks, item.Sum, nil
		case item.Entry != nil:
			entries = append(entries, *item.Entry)
		default:
			blocks[item.Offset] = bytes.Clone(item.Block)
		}
	}
}

func TestWhatIsWrittenIsReadAndBlocksOfZerosAreLeftOut(t *testing.T) {
	last := []byte("12345")
	sent := stream(t, volume(), map[int64][]byte{0: bytes.Repeat([]byte{1}, BlockSize), BlockSize: make([]byte, BlockSize), 2 * BlockSize: last})
	entries, blocks, sum, err := read(sent, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(volume(), entries); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[int64][]byte{0: bytes.Repeat([]byte{1}, BlockSize), 2 * BlockSize: last}, blocks); diff != "" {
		t.Errorf("blocks (-want +got):\n%s", diff)
	}
	want := Sum{Digest: sum.Digest, Entries: 5, Bytes: BlockSize + 5, Omitted: 1}
	if *sum != want || len(sum.Digest) != 64 {
		t.Errorf("the sum is %+v, want %+v", *sum, want)
	}
	other := stream(t, volume(), map[int64][]byte{0: bytes.Repeat([]byte{1}, BlockSize), 2 * BlockSize: []byte("12346")})
	if _, _, changed, err := read(other, 1<<20); err != nil || changed.Digest == sum.Digest {
		t.Errorf("another byte is the same digest (error %v)", err)
	}
}

// Each of these is what a physical cluster might send that is not what it should be.
func TestAStreamIsNotBelieved(t *testing.T) {
	frame := func(kind byte, content string) []byte {
		out := binary.BigEndian.AppendUint32([]byte{kind}, uint32(len(content)))
		return append(out, content...)
	}
	block := func(offset uint64, data string) []byte {
		return frame(frameBlock, string(binary.BigEndian.AppendUint64(nil, offset))+data)
	}
	const dot = `{"path":"Lg==","kind":"directory"}`
	start := slices.Concat(frame(frameBegin, `{"version":1,"claim":"uid"}`), frame(frameEntry, dot))
	file := slices.Concat(start, frame(frameEntry, `{"path":"YQ==","kind":"file","size":5}`))
	for name, c := range map[string]struct {
		sent []byte
		want string
	}{
		"of another claim":        {frame(frameBegin, `{"version":1,"claim":"other"}`), "another claim"},
		"of another version":      {frame(frameBegin, `{"version":2,"claim":"uid"}`), "does not begin"},
		"that does not begin":     {frame(frameEntry, dot), "does not begin"},
		"that fails":              {append(slices.Clone(start), frame(frameFailed, "disk\n\x1b[31mbroken")...), "where the data are: disk  [31mbroken"},
		"without the volume":      {append(frame(frameBegin, `{"version":1,"claim":"uid"}`), frame(frameEntry, `{"path":"YQ==","kind":"file"}`)...), "not the first entry"},
		"with the volume twice":   {append(slices.Clone(start), frame(frameEntry, dot)...), "not the first entry"},
		"that leads out":          {append(slices.Clone(start), frame(frameEntry, `{"path":"Li4vYQ==","kind":"file"}`)...), "no name"},
		"with an absolute path":   {append(slices.Clone(start), frame(frameEntry, `{"path":"L2E=","kind":"file"}`)...), "no name"},
		"of a device":             {append(slices.Clone(start), frame(frameEntry, `{"path":"YQ==","kind":"device"}`)...), "unknown kind"},
		"without a directory":     {append(slices.Clone(start), frame(frameEntry, `{"path":"YS9i","kind":"file"}`)...), "with its directory"},
		"in a file":               {append(slices.Clone(file), frame(frameEntry, `{"path":"YS9i","kind":"file"}`)...), "with its directory"},
		"out of order":            {append(slices.Clone(file), frame(frameEntry, `{"path":"YQ==","kind":"file"}`)...), "in their order"},
		"with a bad mode":         {append(slices.Clone(start), frame(frameEntry, `{"path":"YQ==","kind":"file","mode":65536}`)...), "mode"},
		"with less than nothing":  {append(slices.Clone(start), frame(frameEntry, `{"path":"YQ==","kind":"file","size":-1}`)...), "size"},
		"of the name of a later":  {append(slices.Clone(start), frame(frameEntry, `{"path":"YQ==","kind":"same","target":"Yg=="}`)...), "came before"},
		"with a block of nothing": {append(slices.Clone(start), block(0, "1")...), "of no file"},
		"with a block past it":    {append(slices.Clone(file), block(BlockSize, "12345")...), "where it has to be"},
		"with a huge offset":      {append(slices.Clone(file), block(math.MaxUint64-BlockSize+1, "12345")...), "where it has to be"},
		"with a short block":      {append(slices.Clone(file), block(0, "1234")...), "where it has to be"},
		"with a block twice":      {slices.Concat(file, block(0, "12345"), block(0, "12345")), "where it has to be"},
		"with a block of zeros":   {append(slices.Clone(file), block(0, "\x00\x00\x00\x00\x00")...), "where it has to be"},
		"with a forged sum":       {slices.Concat(file, block(0, "12345"), frame(frameEnd, `{"digest":"`+strings.Repeat("0", 64)+`","entries":2,"bytes":5}`)), "not those that were sent"},
		"that is cut":             {file, "ended before its end"},
		"that is cut in a frame":  {file[:len(file)-1], "ended before its end"},
		"with a frame that lies":  {append(slices.Clone(start), frameEntry, 0xff, 0xff, 0xff, 0xff), "too long"},
		"of unknown frames":       {append(slices.Clone(start), frame('?', "")...), "unknown kind"},
	} {
		if _, _, sum, err := read(c.sent, 1<<20); sum != nil || err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("a stream %s: %+v, error %v, want %q", name, sum, err, c.want)
		}
	}
	if _, _, _, err := read(stream(t, volume(), nil), 200); !errors.Is(err, ErrTooLong) {
		t.Errorf("an endless stream: %v", err)
	}
	w := NewWriter(io.Discard, 100)
	if err := errors.Join(w.Begin("uid"), w.Entry(volume()[0]), w.Entry(volume()[1])); !errors.Is(err, ErrTooLong) {
		t.Errorf("an endless volume: %v", err)
	}
	if err := w.Fail("no"); err != nil {
		t.Errorf("what is too long cannot say so: %v", err)
	}
}

func TestPathsHaveOneOrder(t *testing.T) {
	paths := []string{".", "a", "a/b", "a/b/c", "a/c", "a-b", "b"}
	for i, a := range paths {
		for j, b := range paths {
			if got, want := Compare([]byte(a), []byte(b)), cmpInt(i, j); got != want {
				t.Errorf("%s to %s is %d, want %d", a, b, got, want)
			}
		}
	}
}

func cmpInt(a, b int) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func TestLinesHaveABound(t *testing.T) {
	var out bytes.Buffer
	if err := Say(&out, Said{State: Failed, Message: "no\nspace" + strings.Repeat("x", 5000)}); err != nil {
		t.Fatal(err)
	}
	got, err := NewListener(&out).Next()
	if err != nil || got.State != Failed || !strings.HasPrefix(got.Message, "no space") || len(got.Message) > maxSentence {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := NewListener(strings.NewReader(strings.Repeat("x", 1<<20))).Next(); err == nil || err.Error() != "a line is too long" {
		t.Errorf("an endless line: %v", err)
	}
	if _, err := NewListener(strings.NewReader("{\n")).Next(); err == nil {
		t.Error("half a line is read")
	}
}

// FuzzReader: whatever comes, what is read of it is in order, in its bounds, and written again the same.
func FuzzReader(f *testing.F) {
	var out bytes.Buffer
	w := NewWriter(&out, 1<<20)
	if err := errors.Join(w.Begin("uid"), w.Entry(volume()[0]), w.Entry(volume()[1])); err != nil {
		f.Fatal(err)
	}
	if _, err := w.End(0); err != nil {
		f.Fatal(err)
	}
	f.Add(out.Bytes())
	f.Fuzz(func(t *testing.T, data []byte) {
		r := NewReader(bytes.NewReader(data), 1<<20)
		if r.Begin("uid") != nil {
			return
		}
		again := NewWriter(io.Discard, math.MaxInt64)
		var last []byte
		for {
			item, err := r.Next()
			switch {
			case err != nil:
				return
			case item.Sum != nil:
				if item.Sum.Entries == 0 {
					t.Fatal("an end of nothing")
				}
				return
			case item.Entry != nil:
				if last != nil && Compare(last, item.Entry.Path) >= 0 {
					t.Fatalf("%q after %q", item.Entry.Path, last)
				}
				last = item.Entry.Path
				if err := again.Entry(*item.Entry); err != nil {
					t.Fatal(err)
				}
			case len(item.Block) == 0 || len(item.Block) > BlockSize || item.Offset < 0:
				t.Fatalf("%d bytes at %d", len(item.Block), item.Offset)
			}
		}
	})
}

// FuzzListener: a line is short, its message is text of one line, and who says the same again is
// heard the same.
func FuzzListener(f *testing.F) {
	f.Add([]byte(`{"state":"Done","sum":{"entries":1}}` + "\n" + `{"state":"Failed","message":"no\nspace"}` + "\n"))
	f.Add([]byte("{\"message\":\"\\u001b[31m\xff\"}\nnull\n{}"))
	f.Add(bytes.Repeat([]byte("x"), maxLine+1))
	f.Fuzz(func(t *testing.T, data []byte) {
		l := NewListener(bytes.NewReader(data))
		for range len(data) + 1 {
			said, err := l.Next()
			if err != nil {
				return
			}
			if len(said.Message) > maxSentence || Sentence(said.Message) != said.Message || strings.ContainsAny(said.Message, "\n\r\x1b\x00") {
				t.Fatalf("%q is no sentence", said.Message)
			}
			var line bytes.Buffer
			if err := Say(&line, said); err != nil {
				t.Fatal(err)
			}
			if line.Len() > maxLine {
				continue // JSON in other letters
			}
			again, err := NewListener(&line).Next()
			if diff := cmp.Diff(said, again); err != nil || diff != "" {
				t.Fatalf("%v\n%s", err, diff)
			}
		}
		t.Fatalf("more lines than bytes, of %q", data)
	})
}
