package connections

import (
	"net/http"

	"k8s.io/streaming/pkg/httpstream"
)

// Leaving ends the connections of clients, each with an answer, once the server begins
// to shut down: what they ask next they ask another server. Over HTTP/2 the header becomes a
// GOAWAY, and what is in flight on the connection goes on.
func Leaving(next http.Handler, leaving <-chan struct{}) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		select {
		case <-leaving:
			if !httpstream.IsUpgradeRequest(req) {
				w.Header().Set("Connection", "close")
			}
		default:
		}
		next.ServeHTTP(w, req)
	})
}
