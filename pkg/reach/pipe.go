package reach

import (
	"context"
	"io"
	"net/http"
	"sync"
)

// Pipe copies between two connections until one of them ends or ctx does, then closes
// both. It returns when nothing is copied any more.
func Pipe(ctx context.Context, a, b io.ReadWriteCloser) {
	closeBoth := sync.OnceFunc(func() { _, _ = a.Close(), b.Close() })
	defer context.AfterFunc(ctx, closeBoth)()
	var copies sync.WaitGroup
	for _, way := range [][2]io.ReadWriteCloser{{a, b}, {b, a}} {
		copies.Go(func() {
			defer closeBoth()
			_, _ = io.Copy(way[0], way[1]) // how it ended, the protocol inside says
		})
	}
	copies.Wait()
}

// upgraded returns the answer's connection if it changed the protocol.
func upgraded(resp *http.Response) (io.ReadWriteCloser, bool) {
	conn, ok := resp.Body.(io.ReadWriteCloser)
	return conn, ok && resp.StatusCode == http.StatusSwitchingProtocols
}
