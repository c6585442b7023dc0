package traffic

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

const (
	// pause is between the beginnings of two requests of one consumer.
	pause = 40 * time.Millisecond
	// timeout is for one request: longer than the pauses of a loaded machine, and too short
	// for a connection that is tried again and again until somebody answers.
	timeout = 3 * time.Second
	// idle is how long a connection is kept without a request, as is usual.
	idle = time.Minute
)

// Requests sends requests, one after the other, until ctx ends: over a new connection
// each, or over connections that are kept. They are POSTs, which no client tries again.
func Requests(ctx context.Context, name string, route Route, keepAlive bool) *Count {
	c := &Count{Name: name}
	targets := roundRobin{route: route}
	client := &http.Client{Timeout: timeout, Transport: &http.Transport{DisableKeepAlives: !keepAlive, IdleConnTimeout: idle}}
	go func() {
		ticker := time.NewTicker(pause)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			target, err := targets.pick()
			began := time.Now()
			if err == nil {
				err = post(ctx, client, target)
			}
			switch {
			case ctx.Err() != nil:
				return
			case err != nil:
				c.fail(target, err)
			default:
				c.succeed(time.Since(began))
			}
		}
	}()
	return c
}

// Try sends one request over a connection of its own.
func Try(ctx context.Context, target string) error {
	return post(ctx, &http.Client{Timeout: timeout, Transport: &http.Transport{DisableKeepAlives: true}}, target)
}

func post(ctx context.Context, client *http.Client, target string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+target+"/", strings.NewReader("order"))
	if err != nil {
		return err
	}
	answer, err := client.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("the answer is %s", answer.Status)
	}
	_, err = io.Copy(io.Discard, answer.Body)
	return err
}
