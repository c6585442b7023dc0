//go:build !linux

package main

import "time"

// cpuTime is known on Linux only: elsewhere all CPU figures are 0.
func cpuTime(int) (time.Duration, error) { return 0, nil }
