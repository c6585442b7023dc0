package traffic

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"
)

// silence is after how much time a stream, which has a line every 100 ms, counts as broken.
const silence = 3 * time.Second

// Stream keeps one stream open until ctx ends. When its address is withdrawn it opens
// another one and leaves the first: what it counts as done are lines, as failed streams
// that ended before.
func Stream(ctx context.Context, name string, route Route) *Count {
	c := &Count{Name: name}
	targets := roundRobin{route: route}
	go func() {
		for ctx.Err() == nil {
			target, err := targets.pick()
			if err == nil {
				err = follow(ctx, c, target, route)
			}
			if err != nil && ctx.Err() == nil {
				c.fail(target, err)
				time.Sleep(pause)
			}
		}
	}()
	return c
}

// follow reads a stream until its address is withdrawn; an error is how it ended before.
func follow(ctx context.Context, c *Count, target string, route Route) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+target+"/stream", nil)
	if err != nil {
		return err
	}
	watchdog := time.AfterFunc(silence, func() { cancel(fmt.Errorf("nothing came for %s", silence)) })
	defer watchdog.Stop()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Do(r)
	if err != nil {
		return errors.Join(err, context.Cause(ctx))
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("the answer is %s", answer.Status)
	}
	lines, last := bufio.NewScanner(answer.Body), time.Now()
	for lines.Scan() {
		if lines.Text() == "end" {
			return errors.New("the server ended the stream")
		}
		watchdog.Reset(silence)
		c.succeed(time.Since(last))
		last = time.Now()
		if now := route(); len(now) > 0 && !slices.Contains(now, target) {
			return nil
		}
	}
	if err := errors.Join(lines.Err(), context.Cause(ctx)); err != nil {
		return err
	}
	return errors.New("the stream ended")
}
