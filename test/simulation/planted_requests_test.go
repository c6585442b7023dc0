package simulation

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

// takesOff deletes a mirror instead of writing its status.
func takesOff(c *call) {
	r := c.req
	if c.line.target != "" && r.method == http.MethodPut && r.subresource == "status" && r.res.GroupResource() == pods {
		r.method, r.subresource, r.body = http.MethodDelete, "", nil
	}
}

// believesAnybody: whoever answers has the identity of the cluster that is meant.
func believesAnybody(c *call) (answer, bool) {
	r := c.req
	if c.line.syncer == nil || c.line.target != "" || r.method != http.MethodGet || r.res == nil || r.res.GroupResource() != namespaces || r.name != metav1.NamespaceSystem {
		return answer{}, false
	}
	meant := c.line.syncer.physical.front
	return meant.object(r, meant.store.Find(r.key())), true
}

// neverEmpty: whoever asks whether there is a namespace of ours hears that there is.
func neverEmpty(c *call) (answer, bool) {
	r := c.req
	if c.line.syncer == nil || c.line.target != "" || r.res == nil || r.res.GroupResource() != namespaces || r.query.Get("limit") != "1" || r.query.Get("labelSelector") == "" {
		return answer{}, false
	}
	return ok([]byte(`{"kind":"NamespaceList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[{"metadata":{"name":"ours"}}]}`), "one, it says"), true
}

// trusts: a syncer that asks for an object hears that there is none.
func trusts(c *call) (answer, bool) {
	r := c.req
	if c.line.target == "" || r.method != http.MethodGet || r.name == "" || !slices.Contains(copied, r.res.GroupResource()) {
		return answer{}, false
	}
	return failure(apierrors.NewNotFound(r.res.GroupResource(), r.name)), true
}

// recordsAnything: a syncer may write the record of what the server does not know.
func recordsAnything(c *call) (answer, bool) {
	r := c.req
	if c.line.target == "" || r.method != http.MethodPost || r.res.GroupResource() != copies {
		return answer{}, false
	}
	obj, err := r.res.decode(r.body)
	if err != nil {
		return answer{}, false
	}
	obj.SetNamespace(r.namespace)
	obj.SetAnnotations(map[string]string{"kcp.io/cluster": r.scope.Cluster.String()})
	return c.line.to().result(r)(c.line.world.api.Create(c.line.by, copies, obj)), true
}

// takesOver: an apply may meet what somebody else has made a moment ago.
func takesOver(c *call) {
	r := c.req
	if c.line.syncer == nil || types.PatchType(r.content) != types.ApplyPatchType {
		return
	}
	obj, err := r.res.decode(r.body)
	if err != nil {
		return
	}
	obj.SetResourceVersion("")
	r.body, _ = json.Marshal(obj)
	r.query.Set("force", "true")
}

func deletesByName(c *call) {
	if c.line.syncer != nil && c.line.target == "" && c.req.method == http.MethodDelete {
		c.req.body = nil
	}
}

// seesNoDecision: a server that decides does not see that somebody has.
func seesNoDecision(c *call) (answer, bool) {
	r := c.req
	if c.line.by != system || r.method != http.MethodGet || r.name == "" || r.res.GroupResource() != placements {
		return answer{}, false
	}
	a := c.line.to().get(c)
	body, _ := io.ReadAll(a.response.Body)
	obj, err := r.res.decode(body)
	p, ok := obj.(*placementv1alpha1.Placement)
	if err != nil || !ok || p.UID == "" {
		return failure(apierrors.NewNotFound(placements, r.name)), true
	}
	p.Spec.Decision = nil
	body, _ = json.Marshal(p)
	return respond(http.StatusOK, body, "without its decision"), true
}

// lastWins: the decision is stored whatever is there.
func lastWins(c *call) {
	r := c.req
	if c.line.by != system || r.res.GroupResource() != placements || r.method != http.MethodPut || r.subresource != "" {
		return
	}
	if obj, err := r.res.decode(r.body); err == nil {
		obj.SetResourceVersion("")
		r.body, _ = json.Marshal(obj)
	}
}

// forgetsWrites: the watch cache of a server says that it is as new as the last write
// of the server itself, and has the status from before. (One that only is behind, and
// is not asked for a version, does no lasting harm: the controller does not recognize
// its write when that comes, and looks again.)
func forgetsWrites(c *call) (answer, bool) {
	r := c.req
	if c.line.by != system || r.method != http.MethodGet || r.name == "" || r.res.GroupResource() != deployments || r.query.Get("resourceVersion") == "" {
		return answer{}, false
	}
	f := c.line.to()
	now := cast(f.store.Find(r.key()))
	log := f.store.Log(deployments)
	for i := len(log) - 1; i >= 0 && now != nil; i-- {
		e := log[i]
		if e.Key != r.key() || e.Old == nil || e.By != system || number(e.Old, "status", "readyReplicas") == number(now, "status", "readyReplicas") {
			continue
		}
		old := changed(now)
		old.Object["status"] = cast(e.Old).Object["status"]
		body, _ := json.Marshal(old.Object)
		return ok(body, "with the status of "+e.Old.GetResourceVersion()), true
	}
	return answer{}, false
}

// grantsLeases says yes to whoever wants a Lease, and keeps what it has.
func grantsLeases(c *call) (answer, bool) {
	r := c.req
	if c.line.target == "" || r.res == nil || r.res.GroupResource() != leases {
		return answer{}, false
	}
	stored := c.line.world.api.Find(r.key())
	if stored == nil || text(stored, "spec", "holderIdentity") == c.line.syncer.name {
		return answer{}, false
	}
	switch r.method {
	case http.MethodGet:
		free := changed(stored)
		_ = unstructured.SetNestedField(free.Object, "", "spec", "holderIdentity") // a path of maps
		body, _ := json.Marshal(free.Object)
		return ok(body, "free"), true
	case http.MethodPut:
		return ok(r.body, "granted"), true
	}
	return answer{}, false
}

// updatesByName: an apply to an object that is there names no UID and no version: one
// that is late would make it again.
func updatesByName(c *call) {
	r := c.req
	if c.line.syncer == nil || types.PatchType(r.content) != types.ApplyPatchType {
		return
	}
	obj, err := r.res.decode(r.body)
	if err != nil || obj.GetUID() == "" {
		return
	}
	obj.SetUID("")
	obj.SetResourceVersion("")
	r.body, _ = json.Marshal(obj)
}

// leavesAddresses: what is written again of who is elsewhere is as it was.
func leavesAddresses(c *call) (answer, bool) { return unchanged(c, netPolicies, types.JSONPatchType) }

// leavesEndpoints has EndpointSlices that the syncer made stay as they are, whatever it patches.
func leavesEndpoints(c *call) (answer, bool) {
	return unchanged(c, endpointSlices, types.MergePatchType)
}

// unchanged answers a patch of a syncer as if it had been done.
func unchanged(c *call, resource schema.GroupResource, by types.PatchType) (answer, bool) {
	r := c.req
	if c.line.syncer == nil || c.line.target != "" || types.PatchType(r.content) != by || r.res.GroupResource() != resource {
		return answer{}, false
	}
	to := c.line.syncer.physical.front
	obj := to.store.Find(r.key())
	if obj == nil {
		return answer{}, false
	}
	return to.object(r, obj), true
}
