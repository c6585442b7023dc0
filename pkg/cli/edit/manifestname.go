package edit

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// identity is what makes an object another one: its version does not.
type identity struct{ group, kind, namespace, name string }

const (
	// nameSeparator is between the parts of a name, as no part of a usual name has it.
	nameSeparator = "--"
	// hashSeparator is before a hash; no name without one has it.
	hashSeparator = "---"
	hashLength    = 10
)

var (
	notInNames = regexp.MustCompile(`[^a-z0-9.-]+`)
	// dotted are dots with dashes or dots beside them, which a name does not have either.
	dotted = regexp.MustCompile(`-*\.[.-]*`)
)

// manifestNames names the Manifests of objects: as kubectl -o name writes a kind, then the namespace and
// the name. Each name follows from its object alone, so that it stays whatever else is read: one that
// changed would be another Manifest of the same object, and the former one would take the object with it.
//
//	the object                         its Manifest
//	Deployment web in monitoring       deployment.apps--monitoring--web
//	Namespace monitoring               namespace--monitoring
//	ClusterRole system:web             clusterrole.rbac.authorization.k8s.io--system-web---<hash>
//	of a kind that differs from        both with a hash; the one exception to the above,
//	another one in capitals only       as nobody does that
//
// No two objects have the same one: without a hash, it can be taken apart again.
func manifestNames(ids []identity) []string {
	count := map[string]int{}
	for _, id := range ids {
		count[id.plainName()]++
	}
	out := make([]string, len(ids))
	for i, id := range ids {
		if out[i] = id.plainName(); !id.isPlain() || count[out[i]] > 1 {
			out[i] = id.hashedName()
		}
	}
	return out
}

func (id identity) parts() []string {
	parts := []string{strings.ToLower(id.kind)}
	if id.group != "" {
		parts[0] += "." + id.group
	}
	if id.namespace != "" {
		parts = append(parts, id.namespace)
	}
	return append(parts, id.name)
}

func (id identity) plainName() string { return strings.Join(id.parts(), nameSeparator) }

// isPlain says that the plain name is one, and can be taken apart again.
func (id identity) isPlain() bool {
	for _, part := range id.parts() {
		if strings.Contains(part, nameSeparator) || len(validation.IsDNS1123Subdomain(part)) > 0 {
			return false
		}
	}
	return !strings.Contains(id.kind, ".") && len(id.plainName()) <= validation.DNS1123SubdomainMaxLength
}

// hashedName is what can be read of the plain name, and a hash of the object.
func (id identity) hashedName() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q", []string{id.group, id.kind, id.namespace, id.name}))
	readable := notInNames.ReplaceAllString(strings.ToLower(id.plainName()), "-")
	readable = dotted.ReplaceAllString(readable, ".")
	if n := validation.DNS1123SubdomainMaxLength - len(hashSeparator) - hashLength; len(readable) > n {
		readable = readable[:n]
	}
	return strings.TrimLeft(strings.TrimRight(readable, "-.")+hashSeparator+hex.EncodeToString(sum[:])[:hashLength], "-.")
}
