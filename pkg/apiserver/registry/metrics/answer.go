package metrics

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// maxAnswer bounds what is read of an answer, maxItem one item of it. Items are
	// dropped as they are read.
	maxAnswer = 16 << 20
	maxItem   = 64 << 10
)

// item is what a physical cluster says of a pod, or of a node.
type item struct {
	Metadata struct {
		Name, Namespace string
	}
	Timestamp  metav1.Time
	Window     metav1.Duration
	Usage      map[string]string
	Containers []struct {
		Name  string
		Usage map[string]string
	}
}

var (
	errTooLarge = errors.New("its answer is too large")
	errNoList   = errors.New("its answer is no list of metrics")
)

// bounded reads what is left for an answer, and for an item of it.
type bounded struct {
	r         io.Reader
	all, item int64
}

// Read implements io.Reader.
func (b *bounded) Read(p []byte) (int, error) {
	left := min(b.all, b.item)
	if left <= 0 {
		return 0, errTooLarge
	}
	if int64(len(p)) > left {
		p = p[:left]
	}
	n, err := b.r.Read(p)
	b.all, b.item = b.all-int64(n), b.item-int64(n)
	return n, err
}

// each gives take the items of a list, one after the other.
func each(r io.Reader, take func(item)) error {
	b := &bounded{r: r, all: maxAnswer, item: maxItem}
	dec := json.NewDecoder(b)
	if err := expect(dec, json.Delim('{')); err != nil {
		return err
	}
	for dec.More() {
		b.item = maxItem
		key, err := dec.Token()
		if err != nil {
			return unread(err)
		}
		if key != "items" {
			if err := dec.Decode(&json.RawMessage{}); err != nil {
				return unread(err)
			}
			continue
		}
		if err := expect(dec, json.Delim('[')); err != nil {
			return err
		}
		for dec.More() {
			b.item = maxItem
			var i item
			if err := dec.Decode(&i); err != nil {
				return unread(err)
			}
			take(i)
		}
		if err := expect(dec, json.Delim(']')); err != nil {
			return err
		}
	}
	return expect(dec, json.Delim('}'))
}

func expect(dec *json.Decoder, want json.Token) error {
	got, err := dec.Token()
	if err != nil {
		return unread(err)
	}
	if got != want {
		return errNoList
	}
	return nil
}

// unread is why an answer could not be read, without what is in it.
func unread(err error) error {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.Is(err, errTooLarge):
		return errTooLarge
	case errors.As(err, &syntax), errors.As(err, &kind):
		return errNoList
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("its answer ended too early")
	}
	return fmt.Errorf("its answer could not be read to its end: %w", err)
}

// quantity is what is read as one: no exponents, with which a short text is a number whose
// arithmetic takes long, and nothing below zero.
var quantity = regexp.MustCompile(`^[0-9]{1,19}(\.[0-9]{1,9})?([num]|[kMGTPE]|[KMGTPE]i)?$`)

// measured are the resources that are shown.
var measured = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, "swap"}

// usage reads what is used; nil if processors or memory are missing.
func usage(said map[string]string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for _, name := range measured {
		if !quantity.MatchString(said[string(name)]) {
			continue
		}
		if q, err := resource.ParseQuantity(said[string(name)]); err == nil {
			out[name] = q
		}
	}
	if _, ok := out[corev1.ResourceCPU]; !ok {
		return nil
	}
	if _, ok := out[corev1.ResourceMemory]; !ok {
		return nil
	}
	return out
}

// add adds more to sum.
func add(sum, more corev1.ResourceList) {
	for name, q := range more {
		total := sum[name]
		total.Add(q)
		sum[name] = total
	}
}
