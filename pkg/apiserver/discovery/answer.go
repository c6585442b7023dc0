package discovery

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/NYTimes/gziphandler"
	"github.com/munnerz/goautoneg"
	"k8s.io/kube-openapi/pkg/handler"
	"k8s.io/kube-openapi/pkg/handler3"

	"github.com/atoll-dev/atoll/pkg/apiserver/weighed"
)

// The encodings that clients may ask for; the last names are those of older clients.
var (
	encodingsV2 = []encoding{encodingJSON, protobufEncoding("com.github.proto-openapi.spec.v2.v1.0+protobuf"), protobufEncoding("com.github.proto-openapi.spec.v2@v1.0+protobuf")}
	encodingsV3 = []encoding{encodingJSON, protobufEncoding("com.github.proto-openapi.spec.v3.v1.0+protobuf"), protobufEncoding("com.github.proto-openapi.spec.v3@v1.0+protobuf")}
)

// answer serves one document.
type answer struct {
	// hash identifies the content, whatever its encoding.
	hash string
	// path is where a document of OpenAPI v3 is, for who knows another hash of it.
	path      string
	encodings []encoding
	// write makes what is written, in order; done is called when it is.
	write func(context.Context, encoding) (chunks [][]byte, done func(), err error)
}

// ServeHTTP implements http.Handler, as upstream's handlers of OpenAPI do.
func (a answer) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	w.Header().Set("Vary", "Accept")
	e, ok := a.accepted(req.Header.Get("Accept"))
	if !ok {
		w.WriteHeader(http.StatusNotAcceptable)
		return
	}
	tag := strconv.Quote(a.hash)
	w.Header().Set("Etag", tag)
	if known := req.URL.Query().Get("hash"); known != "" && a.path != "" {
		if known != a.hash {
			http.Redirect(w, req, where(a.path, a.hash).ServerRelativeURL, http.StatusMovedPermanently)
			return
		}
		w.Header().Set("Cache-Control", "public, immutable")
		w.Header().Set("Expires", time.Now().AddDate(1, 0, 0).UTC().Format(http.TimeFormat))
	}
	if strings.Contains(req.Header.Get("If-None-Match"), tag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	chunks, done, err := a.write(req.Context(), e)
	if err != nil {
		fail(w, err)
		return
	}
	defer done()
	// An older name of a media type differs in this character.
	w.Header().Set("Content-Type", "application/"+strings.Replace(e.name, "@", ".", 1))
	for _, chunk := range chunks {
		if _, err := w.Write(chunk); err != nil {
			return // the client went
		}
	}
}

// fail answers that a document cannot be written.
func fail(w http.ResponseWriter, err error) {
	for _, name := range []string{"Etag", "Cache-Control", "Expires"} {
		w.Header().Del(name)
	}
	code := http.StatusInternalServerError
	if errors.Is(err, weighed.ErrBusy) {
		w.Header().Set("Retry-After", "5")
		code = http.StatusServiceUnavailable
	}
	http.Error(w, err.Error(), code)
}

// accepted is the first encoding of which the client's header speaks.
func (a answer) accepted(header string) (encoding, bool) {
	if header == "" {
		header = "*/*"
	}
	for _, clause := range goautoneg.ParseAccept(header) {
		for _, e := range a.encodings {
			if (clause.Type == "application" || clause.Type == "*") && (clause.SubType == e.name || clause.SubType == "*") {
				return e, true
			}
		}
	}
	return encoding{}, false
}

// zipped compresses for clients that want it, as upstream does with OpenAPI v2.
func zipped(h http.HandlerFunc) http.Handler { return gziphandler.GzipHandler(h) }

func writeIndex(w http.ResponseWriter, index handler3.OpenAPIV3Discovery) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(index) // the client went
}

// toProtobuf makes protobuf of a document that is JSON.
func toProtobuf(l layout, from *rendered) (*rendered, error) {
	data, convert := bytes.Join(joinJSON(l, from), nil), handler.ToProtoBinary
	if len(l.sets) == len(layoutV3.sets) {
		convert = handler3.ToV3ProtoBinary
	}
	out, err := convert(data)
	if err != nil {
		return nil, fmt.Errorf("encoding a document: %w", err)
	}
	return splitProtobuf(l, out)
}

// hashOf identifies a document that is made of what keys identify, by this build of the
// server: another one may make other documents of the same definitions.
func hashOf(keys ...string) string {
	h := sha256.New()
	fmt.Fprintf(h, "%s", build())
	for _, key := range keys {
		fmt.Fprintf(h, "%d:%s", len(key), key)
	}
	return fmt.Sprintf("%X", h.Sum(nil))
}

// build is what this program is made of.
var build = sync.OnceValue(func() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	return info.String()
})
