package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"
)

const (
	// port is where the server listens.
	port = ":8080"
	// interval is that of the lines of a stream.
	interval = 100 * time.Millisecond
	// grace is for requests that are under way when the server is asked to stop.
	grace = 5 * time.Second
)

// serve answers / with the name of the pod, /stream with a line every 100 ms, /healthz.
// When it is asked to stop it ends streams with the line "end" and answers what has begun.
func serve(stop <-chan os.Signal) {
	name, _ := os.Hostname()
	ending := make(chan struct{})
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("/stream", func(w http.ResponseWriter, r *http.Request) {
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for {
			fmt.Fprintln(w, name)
			_ = http.NewResponseController(w).Flush()
			select {
			case <-ticker.C:
			case <-r.Context().Done():
				return
			case <-ending:
				fmt.Fprintln(w, "end")
				return
			}
		}
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, name) })
	server := &http.Server{Addr: port, Handler: mux, ReadHeaderTimeout: grace}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		<-stop
		close(ending)
		ctx, cancel := context.WithTimeout(context.Background(), grace)
		defer cancel()
		_ = server.Shutdown(ctx)
	}()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		fail(err)
	}
	<-stopped
}
