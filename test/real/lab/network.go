//go:build linux

package lab

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
)

// Server is where the Atoll server listens: at an address of this machine that pods reach, at
// the port that names without one mean.
const (
	ServerHost = "172.30.0.1"
	Server     = ServerHost + ":443"
)

// network is the addresses of one physical cluster, and its network namespace.
type network struct {
	name  string
	index int
}

// server is the address of the API server, node that of the node.
func (n network) server() string { return fmt.Sprintf("172.31.%d.1", n.index) }
func (n network) node() string   { return fmt.Sprintf("172.31.%d.2", n.index) }

// pods is the range of the pods, balancer an address of a load balancer.
func (n network) pods() string          { return fmt.Sprintf("10.200.%d.0/24", n.index) }
func (n network) balancer(i int) string { return fmt.Sprintf("10.201.%d.%d", n.index, i) }
func (n network) inside() string        { return "--net=/run/netns/" + n.name }

// make connects a namespace for the node with that of the tests, and both with everybody:
// pods of all physical clusters reach each other.
func (n network) make() error {
	link, index := n.name, strconv.Itoa(n.index)
	for _, args := range [][]string{
		{"netns", "add", n.name},
		{"link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", n.name},
		{"addr", "add", n.server() + "/24", "dev", link},
		{"link", "set", link, "up"},
		{"-n", n.name, "addr", "add", n.node() + "/24", "dev", "eth0"},
		{"-n", n.name, "link", "set", "eth0", "up"},
		{"-n", n.name, "link", "set", "lo", "up"},
		{"-n", n.name, "route", "add", "default", "via", n.server()},
		{"route", "add", n.pods(), "via", n.node()},
	} {
		if err := run("ip", args...); err != nil {
			return fmt.Errorf("making network %s: %w", index, err)
		}
	}
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0); err != nil {
		return fmt.Errorf("forwarding between physical clusters: %w", err)
	}
	return run("nsenter", n.inside(), "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")
}

// filter gives the node rules of nftables.
func (n network) filter(rules string) error {
	cmd := exec.Command("nsenter", n.inside(), "nft", "-f", "-")
	cmd.Stdin = strings.NewReader(rules)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("giving the node %s rules: %w: %s", n.name, err, strings.TrimSpace(string(out)))
	}
	return nil
}
