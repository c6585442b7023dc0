package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// printLines prints lines of 1 KiB, as many as make SIZE bytes, and then one each 100 ms.
func printLines(ctx context.Context, args []string) error {
	size, err := strconv.Atoi(strings.Join(args, ""))
	if err != nil {
		return err
	}
	const line = 1 << 10
	out := bufio.NewWriterSize(os.Stdout, 64<<10)
	filler := strings.Repeat("x", line-len("line 00000000 \n"))
	for n := range size / line {
		fmt.Fprintf(out, "line %08d %s\n", n, filler)
	}
	if err := out.Flush(); err != nil {
		return err
	}
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for n := size / line; ctx.Err() == nil; n++ {
		fmt.Printf("line %08d\n", n)
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
	return nil
}

// echo prints back what it reads, until that ends.
func echo(context.Context, []string) error {
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		fmt.Println("heard", in.Text())
	}
	return in.Err()
}

func exit(_ context.Context, args []string) error {
	code, err := strconv.Atoi(strings.Join(args, ""))
	if err != nil || code == 0 {
		return errors.New("exit with which code?")
	}
	fmt.Println("out")
	fmt.Fprintln(os.Stderr, "err")
	os.Exit(code)
	return nil
}
