package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// lookup prints a line for each name: what it leads to, sorted, or "none". A name that
// begins with an underscore is that of a port (SRV), an address has names (PTR).
func lookup(ctx context.Context, names []string) error {
	for _, name := range names {
		ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
		found, err := find(ctx, name)
		cancel()
		var dnsError *net.DNSError
		switch {
		case errors.As(err, &dnsError) && dnsError.IsNotFound:
			found = []string{"none"}
		case err != nil:
			found = []string{"error: " + err.Error()}
		}
		slices.Sort(found)
		fmt.Printf("%s\t%s\n", name, strings.Join(found, " "))
	}
	return nil
}

func find(ctx context.Context, name string) (found []string, err error) {
	if _, notAddress := netip.ParseAddr(name); notAddress == nil {
		return net.DefaultResolver.LookupAddr(ctx, name)
	}
	if !strings.HasPrefix(name, "_") {
		return net.DefaultResolver.LookupHost(ctx, name)
	}
	_, records, err := net.DefaultResolver.LookupSRV(ctx, "", "", name)
	for _, r := range records {
		found = append(found, fmt.Sprintf("%s:%d", r.Target, r.Port))
	}
	return found, err
}
