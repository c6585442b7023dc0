package syncer

import (
	"crypto/sha256"
	"encoding/hex"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// CopyName is the name of the Copy of an object on a target. It is readable
// first, and unique by a hash over everything that tells two of them apart. It
// is stored in the name of the Copy: changing it would orphan every Copy.
func CopyName(gr schema.GroupResource, name, target string) string {
	sum := sha256.Sum256([]byte(gr.Group + "/" + gr.Resource + "/" + name + "/" + target))
	if len(name) > 200 {
		name = name[:200]
	}
	// A cut may end in a character that must not stand before the hyphen.
	for len(name) > 0 && (name[len(name)-1] == '.' || name[len(name)-1] == '-') {
		name = name[:len(name)-1]
	}
	if name == "" {
		return hex.EncodeToString(sum[:5])
	}
	return name + "-" + hex.EncodeToString(sum[:5])
}
