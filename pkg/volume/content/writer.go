package content

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"
)

// Frames: a byte that says of which kind, four bytes with the length, and as many more.
const (
	frameBegin  = 'b' // JSON of begin
	frameEntry  = 'e' // JSON of Entry
	frameBlock  = 'd' // eight bytes with the offset, and the bytes of the last File from there on
	frameEnd    = 'z' // JSON of Sum
	frameFailed = 'x' // a sentence: why there is no more

	headerSize = 5
	offsetSize = 8
	maxFrame   = offsetSize + BlockSize
	// version is that of all of the above.
	version = 1
	// maxSentence bounds what is said for people.
	maxSentence = 512
)

type begin struct {
	Version int `json:"version"`
	// Claim is whose data these are.
	Claim string `json:"claim"`
}

// Sum is what came, or is there, in all.
type Sum struct {
	// Digest is the SHA-256 of the frames of entries and blocks, in hexadecimal digits.
	Digest  string `json:"digest"`
	Entries int64  `json:"entries"`
	// Bytes are those of blocks.
	Bytes int64 `json:"bytes"`
	// Omitted are sockets and pipes, of which nothing is said but how many there are.
	Omitted int64 `json:"omitted,omitempty"`
}

// ErrTooLong is that a stream is longer than it may be.
var ErrTooLong = errors.New("there is more to copy than maxBytes")

// Writer writes a stream.
type Writer struct {
	to    io.Writer
	left  int64
	sum   Sum
	hash  hash.Hash
	frame []byte
}

// NewWriter writes at most limit bytes.
func NewWriter(to io.Writer, limit int64) *Writer {
	return &Writer{to: to, left: limit, hash: sha256.New()}
}

func (w *Writer) write(kind byte, counts bool, parts ...[]byte) error {
	w.frame = append(w.frame[:0], kind, 0, 0, 0, 0)
	for _, part := range parts {
		w.frame = append(w.frame, part...)
	}
	if len(w.frame) > headerSize+maxFrame {
		return errors.New("a frame is too long")
	}
	binary.BigEndian.PutUint32(w.frame[1:], uint32(len(w.frame)-headerSize))
	if w.left -= int64(len(w.frame)); w.left < 0 {
		return ErrTooLong
	}
	if counts {
		w.hash.Write(w.frame)
	}
	_, err := w.to.Write(w.frame)
	return err
}

// Begin says of which claim the data are.
func (w *Writer) Begin(claim string) error {
	return w.writeJSON(frameBegin, begin{Version: version, Claim: claim})
}

// Entry writes an entry; it comes after its directory, in the order of Compare.
func (w *Writer) Entry(e Entry) error {
	if err := e.validate(); err != nil {
		return fmt.Errorf("%.256q: %w", e.Path, err)
	}
	w.sum.Entries++
	return w.writeJSON(frameEntry, e)
}

// Block writes what the last File has at an offset: up to BlockSize bytes. Zeros are left out.
func (w *Writer) Block(offset int64, data []byte) error {
	if zero(data) {
		return nil
	}
	w.sum.Bytes += int64(len(data))
	var at [offsetSize]byte
	binary.BigEndian.PutUint64(at[:], uint64(offset))
	return w.write(frameBlock, true, at[:], data)
}

// End says that this was all.
func (w *Writer) End(omitted int64) (Sum, error) {
	w.sum.Omitted = omitted
	w.sum.Digest = hex.EncodeToString(w.hash.Sum(nil))
	return w.sum, w.writeJSON(frameEnd, w.sum)
}

// Fail says why there is no more.
func (w *Writer) Fail(why string) error {
	w.left = headerSize + maxFrame // there is room for that
	return w.write(frameFailed, false, []byte(Sentence(why)))
}

func (w *Writer) writeJSON(kind byte, v any) error {
	content, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encoding: %w", err)
	}
	return w.write(kind, kind == frameEntry, content)
}

func zero(data []byte) bool {
	for _, b := range data {
		if b != 0 {
			return false
		}
	}
	return true
}

// Sentence is what a person may read of what somebody else wrote.
func Sentence(text string) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == '\uFFFD' {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, " "))
	if len(text) > maxSentence {
		text = strings.ToValidUTF8(text[:maxSentence-3], "") + "..."
	}
	return text
}
