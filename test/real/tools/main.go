// Command tools is what tests run inside of pods, by kubectl exec or as their program: with
// the stock clients and the stock resolver, as programs of tenants have them.
//
//	hold                       waits until it is stopped
//	env, cat FILE...           what the pod was given
//	lookup NAME...             what names and addresses lead to: see names.go
//	api [URL]                  who the API server takes the pod for: see api.go
//	call URL [TOKEN]           the status of an answer: see api.go
//	lead                       a leader-elected controller: see lead.go
//	hook                       an admission webhook: see hook.go
//	print SIZE, echo, exit N   for logs, attach, exec: see streams.go
//	burn MIB                   uses a fifth of a processor, and memory: see burn.go
//	tar                        what kubectl cp runs, if it is called by that name: see tar.go
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
)

var commands = map[string]func(ctx context.Context, args []string) error{
	"hold":   func(ctx context.Context, _ []string) error { <-ctx.Done(); return nil },
	"env":    func(context.Context, []string) error { fmt.Println(strings.Join(os.Environ(), "\n")); return nil },
	"cat":    cat,
	"lookup": lookup,
	"api":    api,
	"call":   call,
	"lead":   lead,
	"hook":   hook,
	"print":  printLines,
	"echo":   echo,
	"exit":   exit,
	"burn":   burn,
	"tar":    archive,
}

func main() {
	words := append([]string{filepath.Base(os.Args[0])}, os.Args[1:]...)
	if words[0] != "tar" {
		words = words[1:]
	}
	if len(words) == 0 || commands[words[0]] == nil {
		fail(fmt.Errorf("there is no %q", words))
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := commands[words[0]](ctx, words[1:]); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
