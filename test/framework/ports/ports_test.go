package ports

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// many are more than one block has.
const many = 2*size + 1

// addresses are many, of this process.
func addresses(t *testing.T) []string {
	t.Helper()
	var found []string
	for range many {
		address, err := Address("127.0.0.1")
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, address)
	}
	return found
}

// Two test binaries at the same time get other ports, and none that the kernel would give to
// somebody else.
func TestNobodyElseGetsThePortsOfATestBinary(t *testing.T) {
	const child = "ATOLL_TEST_PORTS_CHILD"
	if os.Getenv(child) != "" {
		fmt.Println(strings.Join(addresses(t), "\n"))
		return
	}
	seen := map[string]bool{}
	check := func(who string, found []string) {
		for _, address := range found {
			if seen[address] {
				t.Errorf("%s gets %s, which somebody has", who, address)
			}
			seen[address] = true
			if port := netip.MustParseAddrPort(address).Port(); port < first || port >= first+blocks*size {
				t.Errorf("%s gets %s: the kernel may give that", who, address)
			}
		}
	}
	check("this process", addresses(t))
	cmd := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), child+"=yes")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(out), "\n")
	if len(lines) < many {
		t.Fatalf("the other process says %q", out)
	}
	check("another one", lines[:many])
}

func TestAPortAtWhichSomebodyListensIsNotFree(t *testing.T) {
	for network, listen := range map[string]func(string) (func() error, error){
		"tcp": func(a string) (func() error, error) {
			l, err := net.Listen("tcp", a)
			if err != nil {
				return nil, err
			}
			return l.Close, nil
		},
		"udp": func(a string) (func() error, error) {
			l, err := net.ListenPacket("udp", a)
			if err != nil {
				return nil, err
			}
			return l.Close, nil
		},
	} {
		address, err := Address("127.0.0.1")
		if err != nil {
			t.Fatal(err)
		}
		end, err := listen(address)
		if err != nil {
			t.Fatal(err)
		}
		if free(address) {
			t.Errorf("%s is free for others while somebody listens (%s)", address, network)
		}
		if err := end(); err != nil {
			t.Fatal(err)
		}
		if !free(address) {
			t.Errorf("%s is not free though nobody listens (%s)", address, network)
		}
	}
}
