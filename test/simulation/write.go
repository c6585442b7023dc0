package simulation

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/atoll-dev/atoll/test/simulation/kube"
)

// write answers a write to a physical cluster.
func (f *front) write(c *call) answer {
	r, by := c.req, c.line.by
	switch r.method {
	case http.MethodPost:
		obj, err := r.res.decode(r.body)
		if err != nil {
			return failure(apierrors.NewBadRequest(err.Error()))
		}
		obj.SetNamespace(r.namespace)
		if r.query.Get("dryRun") != "" {
			return f.object(r, obj)
		}
		return f.result(r)(f.store.Create(by, r.res.GroupResource(), obj))
	case http.MethodPatch:
		return f.patch(c)
	case http.MethodDelete:
		o, err := deleteOptions(r.body)
		if err != nil {
			return failure(apierrors.NewBadRequest(err.Error()))
		}
		if err := f.store.Delete(by, r.key(), o); err != nil {
			return failure(err)
		}
		return ok([]byte(`{"kind":"Status","apiVersion":"v1","status":"Success"}`), "deleted")
	}
	return failure(apierrors.NewMethodNotSupported(r.res.GroupResource(), r.method))
}

func (f *front) result(r *request) func(object, error) answer {
	return func(obj object, err error) answer {
		if err != nil {
			return failure(err)
		}
		return f.object(r, obj)
	}
}

func (f *front) patch(c *call) answer {
	r := c.req
	switch types.PatchType(r.content) {
	case types.ApplyPatchType:
		obj, err := r.res.decode(r.body)
		if err != nil {
			return failure(apierrors.NewBadRequest(err.Error()))
		}
		obj.SetNamespace(r.namespace)
		return f.result(r)(f.store.Apply(c.line.by, r.res.GroupResource(), obj.(*unstructured.Unstructured), r.query.Get("fieldManager"), r.query.Get("force") == "true"))
	case types.MergePatchType, types.JSONPatchType:
		old := f.store.Find(r.key())
		if old == nil {
			return failure(apierrors.NewNotFound(r.res.GroupResource(), r.name))
		}
		obj, err := r.patched(old)
		if err != nil {
			return failure(err)
		}
		if r.subresource == "status" {
			return f.result(r)(f.store.UpdateStatus(c.line.by, r.res.GroupResource(), obj.(*unstructured.Unstructured)))
		}
		return f.result(r)(f.store.Edit(c.line.by, r.res.GroupResource(), obj.(*unstructured.Unstructured), r.query.Get("fieldManager")))
	}
	return failure(apierrors.NewMethodNotSupported(r.res.GroupResource(), r.content))
}

// patched is old with a merge patch applied.
func (r *request) patched(old object) (object, error) {
	before, err := json.Marshal(old)
	if err != nil {
		return nil, err
	}
	var after []byte
	switch types.PatchType(r.content) {
	case types.MergePatchType:
		var target, patch map[string]any
		if err := json.Unmarshal(before, &target); err != nil {
			return nil, err
		}
		if err := json.Unmarshal(r.body, &patch); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		merge(target, patch)
		after, err = json.Marshal(target)
	case types.JSONPatchType:
		patch, invalid := jsonpatch.DecodePatch(r.body)
		if invalid != nil {
			return nil, apierrors.NewBadRequest(invalid.Error())
		}
		if after, err = patch.Apply(before); err != nil { // as of a test that fails
			return nil, apierrors.NewInvalid(r.res.gvk().GroupKind(), r.name, nil)
		}
	case types.StrategicMergePatchType:
		example, known := strategic[r.res.kind]
		if !known {
			return nil, fmt.Errorf("no strategic merge patch of %s here", r.res.kind)
		}
		after, err = strategicpatch.StrategicMergePatch(before, r.body, example)
	default:
		return nil, apierrors.NewBadRequest("patch type " + r.content)
	}
	if err != nil {
		return nil, err
	}
	return r.res.decode(after)
}

var strategic = map[string]any{
	"Namespace": corev1.Namespace{}, "LimitRange": corev1.LimitRange{}, "ResourceQuota": corev1.ResourceQuota{},
}

// merge is RFC 7386.
func merge(target, patch map[string]any) {
	for name, value := range patch {
		part, isMap := value.(map[string]any)
		switch {
		case value == nil:
			delete(target, name)
		case isMap:
			inner, ok := target[name].(map[string]any)
			if !ok {
				inner = map[string]any{}
				target[name] = inner
			}
			merge(inner, part)
		default:
			target[name] = value
		}
	}
}

func deleteOptions(body []byte) (o kube.DeleteOptions, err error) {
	if len(body) == 0 {
		return o, nil
	}
	var sent metav1.DeleteOptions
	if err := json.Unmarshal(body, &sent); err != nil {
		return o, err
	}
	o.Grace = sent.GracePeriodSeconds
	if sent.PropagationPolicy != nil {
		o.Propagation = *sent.PropagationPolicy
	}
	if p := sent.Preconditions; p != nil {
		if p.UID != nil {
			o.UID = *p.UID
		}
		if p.ResourceVersion != nil {
			o.Version = *p.ResourceVersion
		}
	}
	return o, nil
}

// withStatusOf is an object of a kind of our own whose status subresource is
// written, or not.
func withStatusOf(meta, status object) object {
	out := meta.DeepCopyObject().(object)
	field := reflect.ValueOf(out).Elem().FieldByName("Status")
	if field.IsValid() {
		field.Set(reflect.ValueOf(status.DeepCopyObject()).Elem().FieldByName("Status"))
	}
	return out
}

// about answers questions about a server itself.
func (f *front) about(r *request) answer {
	switch r.path {
	case "/version":
		return ok([]byte(`{"major":"1","minor":"37","gitVersion":"v1.37.1","platform":"simulated"}`), "version")
	case "/api", "/apis":
		return f.world.discovery(r.path == "/api")
	}
	if f.physical != nil && f.world.manifests {
		return f.servedOf(r)
	}
	return failure(apierrors.NewNotFound(resources[namespacesGVR].GroupResource(), r.path))
}

// servedOf is what a physical cluster serves of one group and version.
func (f *front) servedOf(r *request) answer {
	gv, err := schema.ParseGroupVersion(strings.TrimPrefix(strings.TrimPrefix(r.path, "/apis/"), "/api/"))
	list := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: gv.String()}
	for gvr, res := range resources {
		if gvr.GroupVersion() == gv && f.world.servedBelow(res) && !(f.physical.undefined && gvr.GroupResource() == gadgets) {
			list.APIResources = append(list.APIResources, metav1.APIResource{Name: gvr.Resource, Kind: res.kind, Namespaced: res.namespaced})
		}
	}
	if err != nil || len(list.APIResources) == 0 {
		return failure(apierrors.NewNotFound(schema.GroupResource{}, r.path))
	}
	slices.SortFunc(list.APIResources, func(a, b metav1.APIResource) int { return strings.Compare(a.Name, b.Name) })
	body, err := json.Marshal(list)
	if err != nil {
		panic(err)
	}
	return ok(body, "resources")
}

var namespacesGVR = corev1.SchemeGroupVersion.WithResource("namespaces")

// discovery is the aggregated document about what a physical cluster serves.
func (w *World) discovery(core bool) answer {
	type item = map[string]any
	groups := map[string][]any{}
	for gvr, res := range resources {
		if !w.servedBelow(res) || (gvr.Group == "") != core {
			continue
		}
		scope := "Cluster"
		if res.namespaced {
			scope = "Namespaced"
		}
		groups[gvr.Group+"/"+gvr.Version] = append(groups[gvr.Group+"/"+gvr.Version], item{
			"resource": gvr.Resource, "responseKind": item{"group": gvr.Group, "version": gvr.Version, "kind": res.kind},
			"scope": scope, "singularResource": strings.ToLower(res.kind), "verbs": []any{"get", "list", "watch", "create", "delete", "patch", "update"},
		})
	}
	var items []any
	for gv, res := range groups {
		group, version, _ := strings.Cut(gv, "/")
		items = append(items, item{
			"metadata": item{"name": group},
			"versions": []any{item{"version": version, "resources": res, "freshness": "Current"}},
		})
	}
	body, err := json.Marshal(item{"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": item{}, "items": items})
	if err != nil {
		panic(err)
	}
	a := ok(body, "discovery")
	a.response.Header.Set("Content-Type", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")
	return a
}
