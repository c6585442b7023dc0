package reach

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Remote carries calls to a syncer, over a raw connection for each.
type Remote struct {
	// Dial makes a connection at whose other end is Serve.
	Dial func(ctx context.Context) (net.Conn, error)
}

var _ Link = Remote{}

// there is what a request through a tunnel is addressed to; the syncer knows where that is.
var there = &url.URL{Scheme: "http", Host: "syncer"}

// Do implements Link.
func (r Remote) Do(ctx context.Context, c Call) (*http.Response, error) {
	if err := c.Validate(); err != nil {
		return nil, failure(http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
	}
	req, err := c.request(ctx, there)
	if err == nil {
		err = c.encode(req)
	}
	if err != nil {
		return nil, failure(http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
	}
	through := &single{dial: r.Dial}
	return roundTrip(through, req, through.Close)
}

// Serve carries the one call that comes over conn by link, and returns when it is over.
func Serve(ctx context.Context, conn io.ReadWriteCloser, link Link) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	limited := &io.LimitedReader{R: conn, N: maxHeader}
	in := bufio.NewReader(limited)
	req, err := http.ReadRequest(in)
	if err != nil {
		return // nobody is there who would understand an answer
	}
	limited.N = math.MaxInt64
	resp, err := serve(ctx, req, link)
	if err != nil {
		refuse(conn, err)
		return
	}
	defer resp.Body.Close()
	out := &http.Response{ProtoMajor: 1, ProtoMinor: 1, StatusCode: resp.StatusCode, Header: UpgradeHeaders(resp.Header)}
	if other, ok := upgraded(resp); ok {
		if out.Write(conn) == nil {
			Pipe(ctx, joined{in, conn}, other)
		}
		return
	}
	go func() { // ends with conn
		_, _ = io.Copy(io.Discard, in) // whoever asked has gone when it ends
		cancel()
	}()
	out.Header = http.Header{"Content-Type": resp.Header["Content-Type"]}
	out.Body, out.ContentLength, out.TransferEncoding = resp.Body, -1, []string{"chunked"}
	_ = out.Write(conn) // a chunk that is missing says that it was cut
}

func serve(ctx context.Context, req *http.Request, link Link) (*http.Response, error) {
	c, err := decode(req)
	if err != nil {
		return nil, failure(http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
	}
	return link.Do(ctx, c)
}

// refuse answers with a Status.
func refuse(conn io.Writer, err error) {
	status := metav1.Status{Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Reason: metav1.StatusReasonInternalError}
	var known apierrors.APIStatus
	if errors.As(err, &known) {
		status = known.Status()
	}
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	data, err := json.Marshal(status)
	if err != nil {
		return
	}
	out := &http.Response{
		ProtoMajor: 1, ProtoMinor: 1, StatusCode: int(status.Code), Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(bytes.NewReader(data)), ContentLength: int64(len(data)), Close: true,
	}
	_ = out.Write(conn)
}

// joined is a connection whose first bytes have been read already.
type joined struct {
	io.Reader
	io.WriteCloser
}

// Relay gives the answer to an upgrade, and its connection, to the client of w, and
// returns when one of them has ended. The error is fit for the client, which has got
// nothing then.
func Relay(ctx context.Context, w http.ResponseWriter, c Call, resp *http.Response) error {
	other, ok := upgraded(resp)
	if !ok {
		return c.Failure(resp)
	}
	defer other.Close()
	hijacker, ok := w.(http.Hijacker)
	if !ok {
		return fmt.Errorf("%T cannot be hijacked", w)
	}
	conn, buffered, err := hijacker.Hijack()
	if err != nil {
		return fmt.Errorf("taking over the connection: %w", err)
	}
	defer conn.Close()
	out := &http.Response{ProtoMajor: 1, ProtoMinor: 1, StatusCode: resp.StatusCode, Header: UpgradeHeaders(resp.Header)}
	if out.Write(conn) == nil {
		Pipe(ctx, joined{buffered.Reader, conn}, other)
	}
	return nil
}
