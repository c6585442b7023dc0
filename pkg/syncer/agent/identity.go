package agent

import (
	"crypto/sha256"
	"encoding/hex"
	"net"
	"os"
	"runtime"
	"strings"

	"k8s.io/apimachinery/pkg/util/uuid"
)

// identify names this agent in the election. An agent that was killed and started
// again on the same machine has the same name, so that it need not wait for its own
// Lease to expire. Of several that run on it, one has that name: the kernel gives
// the socket that stands for it to one process, and takes it back when that ends.
// The others have names that were never used. Call free when the name is not used
// any more.
func identify(controlPlane, target string) (me string, free func()) {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	unused := host + "_" + string(uuid.NewUUID())
	if runtime.GOOS != "linux" { // which has sockets without files
		return unused, func() {}
	}
	// Machines may share a name.
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return unused, func() {}
	}
	sum := sha256.Sum256([]byte(controlPlane + "/" + target))
	socket, err := net.Listen("unix", "@atoll-syncer-"+hex.EncodeToString(sum[:]))
	if err != nil {
		return unused, func() {}
	}
	return host + "_" + strings.TrimSpace(string(boot)), func() { _ = socket.Close() }
}
