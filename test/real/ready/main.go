//go:build linux

// Command ready says whether tests with real pods can run on this machine, and else what is missing: before anything is
// built for them, which takes minutes.
package main

import (
	"fmt"
	"os"

	"github.com/atoll-dev/atoll/test/real/lab"
)

func main() {
	if err := lab.MissingTools(); err != nil {
		fmt.Println("skipping the tests with real pods:", err)
		os.Exit(1)
	}
}
