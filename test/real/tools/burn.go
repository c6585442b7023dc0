package main

import (
	"context"
	"strconv"
	"strings"
	"time"
)

// burn uses a fifth of a processor, and as many MiB of memory as are named.
func burn(ctx context.Context, args []string) error {
	size, err := strconv.Atoi(strings.Join(args, ""))
	if err != nil {
		return err
	}
	held := make([]byte, size<<20)
	for ctx.Err() == nil {
		for until := time.Now().Add(20 * time.Millisecond); time.Now().Before(until); {
			for i := 0; i < len(held); i += 4096 { // no page of it is one that nobody needs
				held[i]++
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(80 * time.Millisecond):
		}
	}
	return nil
}
