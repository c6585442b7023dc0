package traffic

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strings"
)

// Collector takes the reports of pods that send requests.
type Collector struct {
	*Count
	// Address is where it listens on all addresses.
	Port int
}

// Collect listens until ctx ends.
func Collect(ctx context.Context, name string) (*Collector, error) {
	l, err := net.Listen("tcp", ":0")
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() { _ = l.Close() })
	c := &Collector{Count: &Count{Name: name}, Port: l.Addr().(*net.TCPAddr).Port}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go c.read(ctx, conn)
		}
	}()
	return c, nil
}

// read takes the lines of one pod: its name, one for each request, and that it was stopped.
func (c *Collector) read(ctx context.Context, conn net.Conn) {
	defer conn.Close()
	context.AfterFunc(ctx, func() { _ = conn.Close() })
	lines := bufio.NewScanner(conn)
	lines.Scan()
	pod := lines.Text()
	for lines.Scan() {
		switch line := strings.TrimSpace(lines.Text()); line {
		case "ok":
			c.succeed(0)
		case "stopped":
			return
		default:
			c.failAs(pod + ": " + line)
		}
	}
	if ctx.Err() == nil {
		c.fail(pod, fmt.Errorf("it ended without notice (%v)", lines.Err()))
	}
}
