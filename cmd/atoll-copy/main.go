//go:build linux

// Command atoll-copy reads the volume of a claim, or fills one, in a pod beside it.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strconv"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/atoll-dev/atoll/pkg/volume/content"
	"github.com/atoll-dev/atoll/pkg/volume/tree"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := newCommand().ExecuteContext(ctx); err != nil {
		os.Exit(1)
	}
}

type options struct {
	directory, claim, message string
	port                      int
	maxBytes                  int64
}

func newCommand() *cobra.Command {
	o := options{}
	c := &cobra.Command{
		Use:   "atoll-copy",
		Short: "Copy the volume of a claim from one physical cluster to another one",
		Long: "atoll-copy runs in a pod that mounts a claim, and listens for the server of the control plane, which connects to it through the API server of the\n" +
			"physical cluster. The syncers make these pods, see docs/volumes.md.",
		SilenceUsage: true,
	}
	f := c.PersistentFlags()
	f.StringVar(&o.directory, "directory", "/volume", "where the volume is mounted")
	f.StringVar(&o.claim, "claim", "", "UID of the claim in its logical cluster: data of another one are not taken")
	f.IntVar(&o.port, "port", 0, "port to listen at, on the loopback address only")
	f.Int64Var(&o.maxBytes, "max-bytes", 0, "how much is copied at most")
	f.StringVar(&o.message, "message", "/dev/termination-log", "file that gets the sum of a copy that is complete (receive)")
	c.AddCommand(
		&cobra.Command{Use: "send", Short: "Read the volume", Args: cobra.NoArgs, RunE: func(c *cobra.Command, _ []string) error { return o.send(c) }},
		&cobra.Command{Use: "receive", Short: "Fill the volume", Args: cobra.NoArgs, RunE: func(c *cobra.Command, _ []string) error { return o.receive(c) }},
		&cobra.Command{Use: "mount", Short: "End once the volume is mounted", Args: cobra.NoArgs, RunE: func(*cobra.Command, []string) error { return o.mount() }},
	)
	return c
}

func (o options) open() (v tree.Volume, listener net.Listener, err error) {
	if o.claim == "" || o.port == 0 || o.maxBytes <= 0 {
		return v, nil, errors.New("--claim, --port and --max-bytes are needed")
	}
	v = tree.Volume{Claim: o.claim, MaxBytes: o.maxBytes}
	if v.Root, err = os.OpenRoot(o.directory); err != nil {
		return v, nil, fmt.Errorf("opening the volume: %w", err)
	}
	if listener, err = net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(o.port))); err != nil {
		return v, nil, fmt.Errorf("listening: %w", err)
	}
	return v, listener, nil
}

// mount reads nothing: that it runs shows that the volume is there.
func (o options) mount() error {
	if _, err := os.Stat(o.directory); err != nil {
		return fmt.Errorf("finding the volume: %w", err)
	}
	return nil
}

func (o options) send(c *cobra.Command) error {
	v, listener, err := o.open()
	if err != nil {
		return err
	}
	defer v.Root.Close()
	defer listener.Close()
	err = v.Send(c.Context(), listener, func(err error) { fmt.Fprintln(c.ErrOrStderr(), "sending:", err) })
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

func (o options) receive(c *cobra.Command) error {
	v, listener, err := o.open()
	if err != nil {
		return err
	}
	defer v.Root.Close()
	defer listener.Close()
	sum, err := v.Receive(c.Context(), listener, func(err error) {
		fmt.Fprintln(c.ErrOrStderr(), "receiving:", err)
		_ = os.WriteFile(o.message, []byte(content.Sentence(err.Error())), 0o600) // the next attempt may do better
	})
	if err != nil {
		return err
	}
	said, err := json.Marshal(sum)
	if err != nil {
		return fmt.Errorf("encoding: %w", err)
	}
	if err := os.WriteFile(o.message, said, 0o600); err != nil {
		return fmt.Errorf("saying what was copied: %w", err)
	}
	fmt.Fprintln(c.OutOrStdout(), string(said))
	return nil
}
