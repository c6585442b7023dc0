package auth

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/atoll-dev/atoll/pkg/registration"
)

const (
	// SyncersGroup is the group of all syncers.
	SyncersGroup = registration.Group
	// systemPrefix is reserved: nobody may impersonate such a name.
	systemPrefix = "system:atoll:"
	// ServerUser is what a server calls itself when it asks another one for a stream through a
	// tunnel: it may do that, and nothing else.
	ServerUser = systemPrefix + "server"
)

// SyncerUser is the user name of the syncer of a physical cluster.
func SyncerUser(target string) string { return registration.User(target) }

// SyncerOf returns the physical cluster whose syncer u is.
func SyncerOf(u user.Info) (target string, ok bool) {
	if !slices.Contains(u.GetGroups(), SyncersGroup) {
		return "", false
	}
	return strings.CutPrefix(u.GetName(), registration.User(""))
}

// PhysicalClusterUID is that of the PhysicalCluster whose syncer u is, as its certificate was
// accepted for; empty if u is none.
func PhysicalClusterUID(u user.Info) types.UID {
	if _, is := SyncerOf(u); !is {
		return ""
	}
	return registration.UIDOf(u.GetExtra())
}

// IsSystem reports whether u is the server itself, through its loopback client.
func IsSystem(u user.Info) bool {
	return u.GetName() == user.APIServerUser && IsMaster(u)
}

// IsMaster reports whether u may do everything: the server itself, or an admin of the
// control plane.
func IsMaster(u user.Info) bool {
	return slices.Contains(u.GetGroups(), user.SystemPrivilegedGroup)
}
