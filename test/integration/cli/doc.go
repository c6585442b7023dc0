// Package cli runs the commands of kubectl atoll against the real server. The physical
// clusters exist as objects only; test/e2e has real ones, and runs what docs/cli.md shows.
package cli
