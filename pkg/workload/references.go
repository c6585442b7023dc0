package workload

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Resources that objects refer to.
var (
	ConfigMaps      = schema.GroupResource{Resource: "configmaps"}
	Secrets         = schema.GroupResource{Resource: "secrets"}
	ServiceAccounts = schema.GroupResource{Resource: "serviceaccounts"}
)

// Reference names an object of the same namespace that another one refers to.
type Reference struct {
	Resource schema.GroupResource
	Name     string
}

// References returns what an object needs beside it to run: the ConfigMaps,
// Secrets and ServiceAccounts that it names, sorted and each once. Optional
// references count: the object may exist later.
func References(kind Kind, obj map[string]any) []Reference {
	var c collector
	for _, t := range PodTemplates(kind, obj) {
		c.podSpec(child(t, "spec"))
	}
	for _, r := range kind.References {
		c.reference(r, obj)
	}
	slices.SortFunc(c, func(a, b Reference) int {
		return cmp.Or(cmp.Compare(a.Resource.Resource, b.Resource.Resource), cmp.Compare(a.Name, b.Name))
	})
	return slices.Compact([]Reference(c))
}

type collector []Reference

func (c *collector) add(resource schema.GroupResource, name string) {
	if name != "" {
		*c = append(*c, Reference{Resource: resource, Name: name})
	}
}

func (c *collector) podSpec(spec map[string]any) {
	if spec == nil {
		return
	}
	serviceAccount := text(spec, "serviceAccountName")
	if serviceAccount == "" {
		serviceAccount = "default"
	}
	c.add(ServiceAccounts, serviceAccount)
	for _, s := range children(spec, "imagePullSecrets") {
		c.add(Secrets, text(s, "name"))
	}
	for _, list := range []string{"initContainers", "containers", "ephemeralContainers"} {
		for _, container := range children(spec, list) {
			c.container(container)
		}
	}
	for _, v := range children(spec, "volumes") {
		c.volume(v)
	}
}

func (c *collector) container(container map[string]any) {
	for _, e := range children(container, "envFrom") {
		c.add(ConfigMaps, text(child(e, "configMapRef"), "name"))
		c.add(Secrets, text(child(e, "secretRef"), "name"))
	}
	for _, e := range children(container, "env") {
		from := child(e, "valueFrom")
		c.add(ConfigMaps, text(child(from, "configMapKeyRef"), "name"))
		c.add(Secrets, text(child(from, "secretKeyRef"), "name"))
	}
}

// secretRefs are the volume sources that name a Secret as secretRef.name.
var secretRefs = []string{"cephfs", "cinder", "flexVolume", "iscsi", "rbd", "scaleIO", "storageos"}

func (c *collector) volume(v map[string]any) {
	c.add(ConfigMaps, text(child(v, "configMap"), "name"))
	c.add(Secrets, text(child(v, "secret"), "secretName"))
	for _, s := range children(child(v, "projected"), "sources") {
		c.add(ConfigMaps, text(child(s, "configMap"), "name"))
		c.add(Secrets, text(child(s, "secret"), "name"))
	}
	c.add(Secrets, text(child(child(v, "csi"), "nodePublishSecretRef"), "name"))
	c.add(Secrets, text(child(v, "azureFile"), "secretName"))
	for _, source := range secretRefs {
		c.add(Secrets, text(child(child(v, source), "secretRef"), "name"))
	}
}

// reference adds what one path, or annotation, of an object names: a name, or in an
// annotation "namespace/name". What is in other namespaces is not ours to bring.
func (c *collector) reference(r ReferencePath, obj map[string]any) {
	if r.Annotation == "" {
		for _, name := range texts(obj, r.Path) {
			c.add(r.Resource, name)
		}
		return
	}
	metadata := child(obj, "metadata")
	value := text(child(metadata, "annotations"), r.Annotation)
	namespace, name, qualified := strings.Cut(value, "/")
	switch {
	case !qualified:
		c.add(r.Resource, value)
	case namespace == text(metadata, "namespace"):
		c.add(r.Resource, name)
	}
}
