package discovery

import (
	"bytes"
	"compress/flate"
	"fmt"
	"io"
)

// packed is a part as it is kept: the texts of schemas are compressed to a tenth and less.
type packed struct {
	rest int
	sets [][]packedItem
	body []byte // rest and the items, one after the other
	err  error
}

// packedItem is an item without its body.
type packedItem struct {
	name string
	size int
}

// weight is what p takes in memory.
func (p *packed) weight() int64 {
	n := len(p.body) + overhead
	for _, items := range p.sets {
		for _, i := range items {
			n += len(i.name) + overhead
		}
	}
	return int64(n)
}

func pack(r *rendered) (*packed, error) {
	if r.err != nil {
		return &packed{err: r.err}, nil
	}
	var body bytes.Buffer
	w, err := flate.NewWriter(&body, flate.BestSpeed)
	if err != nil {
		return nil, fmt.Errorf("compressing a document: %w", err)
	}
	p := &packed{rest: len(r.rest)}
	write := func(b []byte) {
		if err == nil {
			_, err = w.Write(b)
		}
	}
	write(r.rest)
	for _, items := range r.sets {
		table := make([]packedItem, len(items))
		for n, i := range items {
			table[n] = packedItem{i.name, len(i.body)}
			write(i.body)
		}
		p.sets = append(p.sets, table)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("compressing a document: %w", err)
	}
	p.body = bytes.Clone(body.Bytes())
	return p, nil
}

func (p *packed) unpack() (*rendered, error) {
	if p.err != nil {
		return &rendered{err: p.err}, nil
	}
	size := p.rest
	for _, items := range p.sets {
		for _, i := range items {
			size += i.size
		}
	}
	all := make([]byte, size)
	if _, err := io.ReadFull(flate.NewReader(bytes.NewReader(p.body)), all); err != nil {
		return nil, fmt.Errorf("reading a document: %w", err)
	}
	r := &rendered{rest: all[:p.rest:p.rest]}
	all = all[p.rest:]
	for _, items := range p.sets {
		set := make([]item, len(items))
		for n, i := range items {
			set[n] = item{i.name, all[:i.size:i.size]}
			all = all[i.size:]
		}
		r.sets = append(r.sets, set)
	}
	return r, nil
}
