//go:build linux

package lab

import "fmt"

// Cut loses, until it is restored, every packet between the server and a physical cluster: its
// API server, where the server connects to that, else its syncer. The connections stay as they
// are, and hear nothing.
func (p *PhysicalCluster) Cut() (restore func() error, err error) {
	from := "iifname lo ip saddr " + p.node.server() + " tcp sport 6443"
	to := "iifname lo ip daddr " + p.node.server() + " tcp dport 6443"
	if p.Pull {
		from, to = "ip saddr "+p.node.node()+" ip daddr "+ServerHost, "ip saddr "+ServerHost+" ip daddr "+p.node.node()
	}
	table := "cut-" + p.Name
	for _, rule := range []string{
		"add table ip " + table,
		"add chain ip " + table + " in { type filter hook input priority 0; }",
		"add chain ip " + table + " out { type filter hook output priority 0; }",
		"add rule ip " + table + " in " + from + " drop",
		"add rule ip " + table + " in " + to + " drop",
	} {
		if err := run("nft", rule); err != nil {
			return nil, fmt.Errorf("cutting the network: %w", err)
		}
	}
	if p.Pull {
		if err := run("nft", "add rule ip "+table+" out "+to+" drop"); err != nil {
			return nil, fmt.Errorf("cutting the network: %w", err)
		}
	}
	return func() error { return run("nft", "delete table ip "+table) }, nil
}
