package election

import (
	"crypto/sha256"
	"encoding/hex"
	"net"
	"os"
	"runtime"
	"strings"

	"k8s.io/apimachinery/pkg/util/uuid"
)

// Identity names an agent in the election. No two agents have the same name.
//
// An agent that was killed and started again need not wait for its own Lease to
// expire, if it knows that the holder is dead. Of the agents for one physical
// cluster in one network namespace of one running kernel, one has the place: the
// kernel gives the socket of that name to one process, and takes it back when that
// ends. Whoever has the place is the only one alive of all whose names begin with it.
type Identity struct {
	Name string
	// place is what the names of all who had it begin with; empty if this one has
	// none.
	place string
	// Free gives the place back. Call it when the name is not used any more.
	Free func()
}

// succeeds says that a holder of the Lease is dead: it had the place that is ours.
func (i Identity) succeeds(holder string) bool {
	return i.place != "" && holder != i.Name && strings.HasPrefix(holder, i.place)
}

// Named is the identity with a name, which may begin with a place, up to an "@".
func Named(name string, free func()) Identity {
	return Identity{Name: name, place: name[:strings.LastIndex(name, "@")+1], Free: free}
}

// Identify names this agent.
func Identify(controlPlane, physicalCluster string) (me string, free func()) {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	host = strings.ReplaceAll(host, "@", "")
	unique := string(uuid.NewUUID())
	none := host + "_" + unique
	if runtime.GOOS != "linux" { // which has sockets without files
		return none, func() {}
	}
	// Machines may share a name. Containers of one share the kernel, and mostly not
	// the network namespace, in which the socket is.
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return none, func() {}
	}
	network, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		return none, func() {}
	}
	sum := sha256.Sum256([]byte(controlPlane + "/" + physicalCluster))
	socket, err := net.Listen("unix", "@atoll-syncer-"+hex.EncodeToString(sum[:]))
	if err != nil {
		return none, func() {}
	}
	return inPlace(host, string(boot), network, unique), func() { _ = socket.Close() }
}

func inPlace(host, boot, network, unique string) string {
	return host + "_" + strings.TrimSpace(boot) + "_" + strings.Trim(network, "net:[]") + "@" + unique
}
