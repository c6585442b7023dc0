package syncer

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/atoll-dev/atoll/pkg/workload"
)

// Server is how pods on a physical cluster reach the control plane; the zero value says
// that they do not.
type Server struct {
	// Host is a name or an address.
	Host, Port string
	// CA are certificates, as PEM.
	CA string
}

// Reached says that there is a way.
func (s Server) Reached() bool { return s.Host != "" && s.CA != "" }

const (
	// mountName begins as the volume that admission adds, for which it is the replacement:
	// the way up takes both off.
	mountName = "kube-api-access-atoll"
	mountPath = "/var/run/secrets/kubernetes.io/serviceaccount"
	// rootCA is what each cluster has in each namespace. The one of the physical cluster is
	// kept by its own controller, so that ours has another name.
	rootCA, ourRootCA = "kube-root-ca.crt", "atoll-root-ca.crt"
)

// Annotations on templates below of what was put into them.
const (
	tokensAnnotation      = "atoll.dev/tokens"       // which Secret holds what token
	serverAnnotation      = "atoll.dev/server"       // what the environment says
	pullSecretsAnnotation = "atoll.dev/pull-secrets" // that they are the account's
	accountUIDAnnotation  = "atoll.dev/account-uid"  // whose tokens are mounted
)

// serverNames lead to the API server in every cluster.
var serverNames = []any{"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"}

// environmentDown gives the pods of a template what they need to work with their logical
// cluster: tokens of their account, the way to the server, and what the account says
// about images. account is nil if it is not known; mounts says whether they have the mount of
// its token.
func environmentDown(template map[string]any, kind workload.Kind, account *Account, mounts bool, server Server) {
	spec := field(template, "spec")
	tokensDown(template, account)
	// Admission has given a Pod those that its account had when it was made.
	if account != nil && !kind.IsPod() && len(list(spec, "imagePullSecrets")) == 0 && len(account.PullSecrets) > 0 {
		var secrets []any
		for _, name := range account.PullSecrets {
			secrets = append(secrets, map[string]any{"name": name})
		}
		spec["imagePullSecrets"] = secrets
		setNested(template, "account", "metadata", "annotations", pullSecretsAnnotation)
	}
	if !server.Reached() {
		return
	}
	for _, ref := range rootCARefs(spec, rootCA) {
		ref["name"] = ourRootCA
	}
	if mounts && account != nil {
		mountToken(template, Token{TokenUse: workload.MountOf(spec), UID: account.UID})
	}
	setNested(template, server.Host+" "+server.Port, "metadata", "annotations", serverAnnotation)
	for _, container := range containersOf(spec) {
		addEnvironment(container, server)
	}
	addNames(spec, server)
}

// environmentUp undoes environmentDown, for a template or a pod with these annotations.
func environmentUp(spec, annotations map[string]any) {
	tokensUp(spec, annotations)
	namesUp(spec, annotations)
	host, port, ok := strings.Cut(text(annotations, serverAnnotation), " ")
	if !ok {
		return
	}
	server := Server{Host: host, Port: port}
	for _, ref := range rootCARefs(spec, ourRootCA) {
		ref["name"] = rootCA
	}
	for _, container := range containersOf(spec) {
		filter(container, "env", func(item any) bool {
			m, _ := item.(map[string]any)
			value, injected := server.environment()[text(m, "name")]
			return injected && m["value"] == value
		})
	}
	filter(spec, "hostAliases", func(item any) bool {
		m, _ := item.(map[string]any)
		names, _ := m["hostnames"].([]any)
		users := len(names) - len(serverNames)
		if m["ip"] != host || users < 0 || !slices.Equal(names[users:], serverNames) {
			return false
		}
		m["hostnames"] = names[:users]
		return users == 0
	})
}

// made is what a copy that cannot be changed was made with: what its account and the way
// to the server are by now comes too late for it. Making it again would end what runs.
func made(kind workload.Kind, physical map[string]any, now *Account, server Server) (*Account, Server) {
	templates := workload.PodTemplates(kind, physical)
	if len(templates) == 0 {
		return now, server
	}
	annotations, spec := field(field(templates[0], "metadata"), "annotations"), field(templates[0], "spec")
	host, port, _ := strings.Cut(text(annotations, serverAnnotation), " ")
	before := Server{Host: host, Port: port, CA: server.CA}
	if before.CA == "" {
		before.CA = text(annotations, serverAnnotation) // that is not known any more; it was once
	}
	mounted := slices.ContainsFunc(list(spec, "volumes"), func(v map[string]any) bool { return v["name"] == mountName })
	account := &Account{Automount: &mounted, UID: types.UID(text(annotations, accountUIDAnnotation))}
	if account.UID == "" && now != nil {
		account.UID = now.UID
	}
	if _, ok := annotations[pullSecretsAnnotation]; ok {
		for _, s := range list(spec, "imagePullSecrets") {
			account.PullSecrets = append(account.PullSecrets, text(s, "name"))
		}
	}
	return account, before
}

// environment are the variables by which pods find the API server. The kubelet sets them,
// to the physical one, where the pod does not.
func (s Server) environment() map[string]string {
	host := s.Host
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	url := "tcp://" + host + ":" + s.Port
	return map[string]string{
		"KUBERNETES_SERVICE_HOST": s.Host, "KUBERNETES_SERVICE_PORT": s.Port, "KUBERNETES_SERVICE_PORT_HTTPS": s.Port,
		"KUBERNETES_PORT": url, "KUBERNETES_PORT_443_TCP": url, "KUBERNETES_PORT_443_TCP_PROTO": "tcp",
		"KUBERNETES_PORT_443_TCP_PORT": s.Port, "KUBERNETES_PORT_443_TCP_ADDR": s.Host,
	}
}

// addEnvironment puts the variables before those of the user, who may refer to them, and
// whose own win.
func addEnvironment(container map[string]any, server Server) {
	own := map[string]bool{}
	for _, e := range list(container, "env") {
		own[text(e, "name")] = true
	}
	variables := server.environment()
	var env []any
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		if !own[name] {
			env = append(env, map[string]any{"name": name, "value": variables[name]})
		}
	}
	users, _ := container["env"].([]any)
	container["env"] = append(env, users...)
}

// addNames has the names of the API server lead to it, if it has an address; to a name
// they can only lead by DNS. A user's own win. An address is listed once: the API server
// refuses to apply a list with two of its keys, so that names go to a user's entry for it.
func addNames(spec map[string]any, server Server) {
	if len(validation.IsValidIP(nil, server.Host)) > 0 {
		return
	}
	users, _ := spec["hostAliases"].([]any)
	for _, alias := range list(spec, "hostAliases") {
		names, _ := alias["hostnames"].([]any)
		if slices.ContainsFunc(names, func(name any) bool { return slices.Contains(serverNames, name) }) {
			return
		}
	}
	for _, alias := range list(spec, "hostAliases") {
		if alias["ip"] == server.Host {
			names, _ := alias["hostnames"].([]any)
			alias["hostnames"] = append(slices.Clone(names), serverNames...)
			return
		}
	}
	spec["hostAliases"] = append(slices.Clone(users), map[string]any{"ip": server.Host, "hostnames": slices.Clone(serverNames)})
}

// mountToken mounts token, authority and namespace at the standard path, in containers
// that mount nothing else there.
func mountToken(template map[string]any, token Token) {
	spec := field(template, "spec")
	mounted := false
	for _, container := range containersOf(spec) {
		mounts, _ := container["volumeMounts"].([]any)
		if slices.ContainsFunc(list(container, "volumeMounts"), func(m map[string]any) bool {
			return strings.TrimSuffix(text(m, "mountPath"), "/") == mountPath
		}) {
			continue
		}
		mounted = true
		container["volumeMounts"] = append(slices.Clone(mounts), map[string]any{"name": mountName, "mountPath": mountPath, "readOnly": true})
	}
	if !mounted {
		return
	}
	setNested(template, string(token.UID), "metadata", "annotations", accountUIDAnnotation)
	volumes, _ := spec["volumes"].([]any)
	items := func(path string) []any { return []any{map[string]any{"key": path, "path": path}} }
	spec["volumes"] = append(slices.Clone(volumes), map[string]any{"name": mountName, "projected": map[string]any{
		"defaultMode": int64(0o644),
		"sources": []any{
			map[string]any{"secret": map[string]any{"name": token.Secret(), "items": items("token")}},
			map[string]any{"configMap": map[string]any{"name": ourRootCA, "items": items("ca.crt")}},
			map[string]any{"downwardAPI": map[string]any{"items": []any{
				map[string]any{"path": "namespace", "fieldRef": map[string]any{"apiVersion": "v1", "fieldPath": "metadata.namespace"}},
			}}},
		},
	}})
}

// tokensDown replaces the tokens that a template names by the Secrets that hold them. Of
// an account that is not known there are none.
func tokensDown(template map[string]any, account *Account) {
	spec := field(template, "spec")
	held := map[string]any{}
	for _, volume := range list(spec, "volumes") {
		projected := field(volume, "projected")
		if account == nil {
			filter(projected, "sources", func(item any) bool {
				source, _ := item.(map[string]any)
				return source["serviceAccountToken"] != nil
			})
		}
		for _, source := range list(projected, "sources") {
			token := field(source, "serviceAccountToken")
			if token == nil {
				continue
			}
			name := Token{TokenUse: workload.TokenOf(spec, token), UID: account.UID}.Secret()
			item, said := map[string]any{"key": "token"}, map[string]any{}
			for key, value := range token {
				if key == "path" || key == "user" { // of the file
					item[key] = value
				} else {
					said[key] = value
				}
			}
			held[name] = said
			delete(source, "serviceAccountToken")
			source["secret"] = map[string]any{"name": name, "items": []any{item}}
		}
	}
	if len(held) == 0 {
		return
	}
	if b, err := json.Marshal(held); err == nil {
		setNested(template, string(b), "metadata", "annotations", tokensAnnotation)
		setNested(template, string(account.UID), "metadata", "annotations", accountUIDAnnotation)
	}
}

func tokensUp(spec, annotations map[string]any) {
	var held map[string]map[string]any
	if noted := text(annotations, tokensAnnotation); noted == "" || unmarshal(noted, &held) != nil {
		return
	}
	for _, volume := range list(spec, "volumes") {
		for _, source := range list(field(volume, "projected"), "sources") {
			secret := field(source, "secret")
			said, ok := held[text(secret, "name")]
			if !ok {
				continue
			}
			token := maps.Clone(said)
			for _, item := range list(secret, "items") {
				maps.Copy(token, item)
			}
			delete(token, "key")
			delete(source, "secret")
			source["serviceAccountToken"] = token
		}
	}
}

// rootCARefs are the references of a pod to the ConfigMap of an authority.
func rootCARefs(spec map[string]any, name string) []map[string]any {
	var refs []map[string]any
	add := func(ref map[string]any) {
		if ref != nil && ref["name"] == name {
			refs = append(refs, ref)
		}
	}
	for _, volume := range list(spec, "volumes") {
		add(field(volume, "configMap"))
		if text(volume, "name") == mountName {
			continue
		}
		for _, source := range list(field(volume, "projected"), "sources") {
			add(field(source, "configMap"))
		}
	}
	for _, container := range containersOf(spec) {
		for _, e := range list(container, "env") {
			add(descend(e, []string{"valueFrom", "configMapKeyRef"}))
		}
		for _, e := range list(container, "envFrom") {
			add(field(e, "configMapRef"))
		}
	}
	return refs
}

// text is the string in a field.
func text(m map[string]any, name string) string {
	s, _ := m[name].(string)
	return s
}
