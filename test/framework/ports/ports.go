// Package ports finds ports for what listens only after somebody chose where: a process that
// is started with an address, or that comes back to the one it had.
//
// A port that the kernel chose and that was closed again may be the next one that it gives to
// anybody on the machine. The ports here are below those that the kernel gives, and those of
// other test binaries are others: each has blocks of ports of its own, as long as it runs.
package ports

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// The ports from first on, to where Linux begins to choose; other systems begin later.
const (
	first  = 10_000
	size   = 64
	blocks = (32_768 - first) / size
)

var mine struct {
	sync.Mutex
	// holders listen at the first port of each block that is ours.
	holders []net.Listener
	// next is the port after the last one, left how many of the block remain.
	next, left int
}

// Address returns an address of host, which is one of this machine, at which nobody listens. No
// later call returns it again.
func Address(host string) (string, error) {
	mine.Lock()
	defer mine.Unlock()
	for {
		if mine.left == 0 {
			if err := claim(); err != nil {
				return "", err
			}
		}
		address := net.JoinHostPort(host, strconv.Itoa(mine.next))
		mine.next, mine.left = mine.next+1, mine.left-1
		if free(address) {
			return address, nil
		}
	}
}

// claim gets another block.
func claim() error {
	for i, from := 0, rand.IntN(blocks); i < blocks; i++ {
		port := first + (from+i)%blocks*size
		if l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err == nil {
			mine.holders = append(mine.holders, l)
			mine.next, mine.left = port+1, size-1
			return nil
		}
	}
	return fmt.Errorf("the first port of each block from %d to %d is taken", first, first+blocks*size)
}

// free says that nobody listens at an address, be it for connections or for packets.
func free(address string) bool {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return false
	}
	packets, err := net.ListenPacket("udp", address)
	if err != nil {
		return errors.Join(err, l.Close()) == nil
	}
	return errors.Join(packets.Close(), l.Close()) == nil
}
