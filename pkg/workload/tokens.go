package workload

import (
	"maps"
	"reflect"
	"slices"
	"strings"
)

// TokenUse is a token of an account that the pods of an object mount.
type TokenUse struct {
	// Account is its name, in the namespace of the object.
	Account string
	// Audience is for whom the token is; empty means the API server.
	Audience string
	// Seconds is how long it is good, as far as the server permits.
	Seconds int64
}

const (
	// defaultTokenSeconds are those of a source that does not say how long.
	defaultTokenSeconds = 3600
	// mountSeconds are those of the mount that every pod has: half of it is how long
	// who renews it may be away.
	mountSeconds = 24 * 3600
)

// AccountOf is the account that the pods of a spec run as.
func AccountOf(spec map[string]any) string {
	for _, name := range []string{"serviceAccountName", "serviceAccount"} {
		if account := text(spec, name); account != "" {
			return account
		}
	}
	return "default"
}

// MountOf is the token of the mount that every pod has, at the standard path.
func MountOf(spec map[string]any) TokenUse {
	return TokenUse{Account: AccountOf(spec), Seconds: mountSeconds}
}

// Mounts says whether the pods of a spec have that mount: as it says itself, else as
// its account says, else yes. A spec that has the volume of it, as whoever copies a pod
// writes, has the mount whatever the account says.
func Mounts(spec map[string]any, account *bool) bool {
	if automount, ok := spec["automountServiceAccountToken"].(bool); ok {
		return automount
	}
	return account == nil || *account || slices.ContainsFunc(children(spec, "volumes"), func(volume map[string]any) bool {
		return IsTokenVolume(volume) && hasToken(volume) && IsMount(spec, volume)
	})
}

func hasToken(volume map[string]any) bool {
	return slices.ContainsFunc(children(child(volume, "projected"), "sources"), func(source map[string]any) bool {
		return source["serviceAccountToken"] != nil
	})
}

// TokenOf is the token of a projected source, as it is in the API, of a spec.
func TokenOf(spec, source map[string]any) TokenUse {
	use := TokenUse{Account: AccountOf(spec), Audience: text(source, "audience"), Seconds: defaultTokenSeconds}
	switch seconds := source["expirationSeconds"].(type) {
	case int64:
		use.Seconds = seconds
	case float64:
		use.Seconds = int64(seconds)
	}
	return use
}

// IsTokenVolume says that a volume is, by its name, the one that admission adds to pods for a
// token.
func IsTokenVolume(volume map[string]any) bool {
	return strings.HasPrefix(text(volume, "name"), "kube-api-access-") && volume["projected"] != nil
}

// mounted are the sources of that volume; how long the token is good aside.
var mounted = []map[string]any{
	{"serviceAccountToken": map[string]any{"path": "token"}},
	{"configMap": map[string]any{"name": "kube-root-ca.crt", "items": []any{map[string]any{"key": "ca.crt", "path": "ca.crt"}}}},
	{"downwardAPI": map[string]any{"items": []any{map[string]any{"path": "namespace", "fieldRef": map[string]any{"apiVersion": "v1", "fieldPath": "metadata.namespace"}}}}},
}

// IsMount says that a token volume of a spec has nothing but what is in the mount that every pod
// has, and that its pods have one: whoever wrote it loses nothing when it is replaced.
func IsMount(spec, volume map[string]any) bool {
	if automount, ok := spec["automountServiceAccountToken"].(bool); ok && !automount {
		return false
	}
	for _, source := range children(child(volume, "projected"), "sources") {
		if token := child(source, "serviceAccountToken"); token != nil && len(source) == 1 {
			token = maps.Clone(token)
			delete(token, "expirationSeconds")
			source = map[string]any{"serviceAccountToken": token}
		}
		if !slices.ContainsFunc(mounted, func(m map[string]any) bool { return reflect.DeepEqual(m, source) }) {
			return false
		}
	}
	return true
}

// Tokens returns what the pods of an object mount, each once, given what its account
// says about the mount that every pod has.
func Tokens(kind Kind, obj map[string]any, account *bool) []TokenUse {
	var uses []TokenUse
	added := map[TokenUse]bool{} // there may be thousands
	add := func(use TokenUse) {
		if !added[use] {
			added[use] = true
			uses = append(uses, use)
		}
	}
	for _, t := range PodTemplates(kind, obj) {
		spec := child(t, "spec")
		if spec == nil {
			continue
		}
		if Mounts(spec, account) {
			add(MountOf(spec))
		}
		for _, volume := range children(spec, "volumes") {
			if IsTokenVolume(volume) {
				continue
			}
			for _, source := range children(child(volume, "projected"), "sources") {
				if token := child(source, "serviceAccountToken"); token != nil {
					add(TokenOf(spec, token))
				}
			}
		}
	}
	return uses
}
