package content

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
)

// Item is the next thing of a stream: an Entry, a block of the File before it, or the end.
type Item struct {
	Entry  *Entry
	Offset int64
	// Block is overwritten by the next Item.
	Block []byte
	// Sum is that of all that came.
	Sum *Sum
}

// FailedError is what the other side said of why there is no more.
type FailedError struct{ Message string }

// Error implements error.
func (e FailedError) Error() string { return "where the data are: " + e.Message }

// Reader reads a stream.
type Reader struct {
	from io.Reader
	left int64
	sum  Sum
	hash hash.Hash

	frame []byte
	begun bool
	// last is the last entry, next the least offset of a block of it.
	last *Entry
	next int64
	// within are the directories that the last entry is in, the volume first.
	within [][]byte
}

// NewReader reads at most limit bytes.
func NewReader(from io.Reader, limit int64) *Reader {
	return &Reader{from: from, left: limit, hash: sha256.New(), frame: make([]byte, headerSize+maxFrame)}
}

func (r *Reader) read() (kind byte, content []byte, err error) {
	if _, err := io.ReadFull(r.from, r.frame[:headerSize]); err != nil {
		return 0, nil, fmt.Errorf("the stream ended before its end: %w", err)
	}
	length := binary.BigEndian.Uint32(r.frame[1:])
	if length > maxFrame {
		return 0, nil, errors.New("a frame is too long")
	}
	if r.left -= headerSize + int64(length); r.left < 0 {
		return 0, nil, ErrTooLong
	}
	frame := r.frame[:headerSize+length]
	if _, err := io.ReadFull(r.from, frame[headerSize:]); err != nil {
		return 0, nil, fmt.Errorf("the stream ended before its end: %w", err)
	}
	return frame[0], frame[headerSize:], nil
}

// Begin reads the beginning: these have to be the data of a claim.
func (r *Reader) Begin(claim string) error {
	kind, content, err := r.read()
	if err != nil {
		return err
	}
	var b begin
	switch {
	case kind == frameFailed:
		return FailedError{Sentence(string(content))}
	case kind != frameBegin || json.Unmarshal(content, &b) != nil || b.Version != version:
		return errors.New("the stream does not begin as one of this version")
	case b.Claim != claim:
		return errors.New("these are the data of another claim")
	}
	r.begun = true
	return nil
}

// Next reads the next item; the last one has the sum.
func (r *Reader) Next() (Item, error) {
	if !r.begun {
		return Item{}, errors.New("the stream has not begun")
	}
	kind, content, err := r.read()
	if err != nil {
		return Item{}, err
	}
	switch kind {
	case frameEntry:
		r.hash.Write(r.frame[:headerSize+len(content)])
		return r.entry(content)
	case frameBlock:
		r.hash.Write(r.frame[:headerSize+len(content)])
		return r.block(content)
	case frameEnd:
		return r.end(content)
	case frameFailed:
		return Item{}, FailedError{Sentence(string(content))}
	}
	return Item{}, errors.New("a frame is of an unknown kind")
}

func (r *Reader) entry(content []byte) (Item, error) {
	e := &Entry{}
	if json.Unmarshal(content, e) != nil {
		return Item{}, errors.New("an entry cannot be read")
	}
	if err := e.validate(); err != nil {
		return Item{}, err
	}
	switch first := bytes.Equal(e.Path, root); {
	case first != (r.last == nil), first && e.Kind != Directory:
		return Item{}, errors.New("the volume itself is not the first entry, once")
	case !first && Compare(r.last.Path, e.Path) >= 0:
		return Item{}, errors.New("entries are not in their order")
	case !first:
		for parent := Parent(e.Path); !bytes.Equal(r.within[len(r.within)-1], parent); {
			if r.within = r.within[:len(r.within)-1]; len(r.within) == 0 {
				return Item{}, errors.New("an entry does not come with its directory")
			}
		}
	}
	if e.Kind == Directory {
		r.within = append(r.within, e.Path)
	}
	r.last, r.next = e, 0
	r.sum.Entries++
	return Item{Entry: e}, nil
}

func (r *Reader) block(content []byte) (Item, error) {
	if r.last == nil || r.last.Kind != File || len(content) <= offsetSize {
		return Item{}, errors.New("a block is of no file")
	}
	offset, data := binary.BigEndian.Uint64(content), content[offsetSize:]
	size := uint64(r.last.Size)
	switch {
	case offset < uint64(r.next) || offset%BlockSize != 0 || offset >= size,
		uint64(len(data)) != min(BlockSize, size-offset), zero(data):
		return Item{}, errors.New("a block is not where it has to be")
	}
	r.next = int64(min(offset+BlockSize, size))
	r.sum.Bytes += int64(len(data))
	return Item{Offset: int64(offset), Block: data}, nil
}

func (r *Reader) end(content []byte) (Item, error) {
	var said Sum
	if json.Unmarshal(content, &said) != nil || said.Omitted < 0 {
		return Item{}, errors.New("the sum cannot be read")
	}
	r.sum.Digest, r.sum.Omitted = hex.EncodeToString(r.hash.Sum(nil)), said.Omitted
	switch {
	case r.last == nil:
		return Item{}, errors.New("the stream has no entry")
	case said != r.sum:
		return Item{}, fmt.Errorf("%d entries with %d bytes came, which are not those that were sent", r.sum.Entries, r.sum.Bytes)
	}
	sum := r.sum
	return Item{Sum: &sum}, nil
}
