package content

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// State is how far the pod is that fills a volume.
type State string

const (
	// Ready: a stream may come, and begins at its beginning. Nothing else is being filled.
	Ready State = "Ready"
	// Filling: what came is written. Verifying: it is read again.
	Filling   State = "Filling"
	Verifying State = "Verifying"
	// Done: the volume has what was sent. Failed: it has not.
	Done   State = "Done"
	Failed State = "Failed"
)

// Said is a line of the pod that fills a volume, one every few seconds.
type Said struct {
	State State `json:"state"`
	// Message is why it failed.
	Message string `json:"message,omitempty"`
	// Sum is that of what was read again (Done).
	Sum *Sum `json:"sum,omitempty"`
}

// maxLine bounds a line.
const maxLine = 4 << 10

// Say writes a line.
func Say(to io.Writer, s Said) error {
	s.Message = Sentence(s.Message)
	line, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("encoding: %w", err)
	}
	_, err = to.Write(append(line, '\n'))
	return err
}

// Listener reads lines.
type Listener struct{ lines *bufio.Reader }

// NewListener reads the lines of somebody who need not be what he should.
func NewListener(from io.Reader) *Listener {
	return &Listener{bufio.NewReaderSize(from, maxLine)}
}

// Next is the next line.
func (l *Listener) Next() (Said, error) {
	line, err := l.lines.ReadSlice('\n')
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return Said{}, errors.New("a line is too long")
	case err != nil:
		return Said{}, err
	}
	var s Said
	if json.Unmarshal(line, &s) != nil {
		return Said{}, errors.New("a line cannot be read")
	}
	s.Message = Sentence(s.Message)
	return s, nil
}
