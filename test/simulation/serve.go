package simulation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	k8sadmission "k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/kubernetes/pkg/api/legacyscheme"

	"github.com/atoll-dev/atoll/pkg/apiserver/auth"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/test/simulation/kube"
)

// serve answers a write to the control plane: through admission, to the database.
// It goes on when who asked does not wait any more, until its own server dies.
func (s *server) serve(c *call) answer {
	r := c.req
	ctx := scope.With(s.ctx, r.scope)
	if r.scope.Target == "" {
		ctx = scope.WithCluster(s.ctx, r.scope.Cluster)
	}
	s.world.ledger.asksControlPlane(c)
	switch r.method {
	case http.MethodPost:
		return s.create(ctx, c)
	case http.MethodPut, http.MethodPatch:
		return s.update(ctx, c)
	case http.MethodDelete:
		if r.name == "" {
			return s.deleteAll(ctx, c)
		}
		if err := s.delete(ctx, c, r.name); err != nil {
			return failure(err)
		}
		return ok([]byte(`{"kind":"Status","apiVersion":"v1","status":"Success"}`), "deleted")
	}
	return failure(apierrors.NewMethodNotSupported(r.res.GroupResource(), r.method))
}

// commit is a write to the database. Between the decision to write and the write
// others may do things, the server may die, and the write may get there nevertheless;
// but not to a database that was restored in the meantime, which is another process.
func (s *server) commit(c *call, do func() answer) answer {
	write := do
	do = func() answer {
		if s.restores != s.world.restores {
			return answer{err: errUnreachable}
		}
		return write()
	}
	w := &call{line: s.line, ctx: s.ctx, done: make(chan answer, 1), commit: do, client: c}
	s.world.net.add(w)
	response, err := w.wait()
	return answer{response, err}
}

func (s *server) requester(c *call) user.Info {
	switch {
	case c.line.target != "":
		return &user.DefaultInfo{Name: auth.SyncerUser(c.line.target), Groups: []string{auth.SyncersGroup, user.AllAuthenticated}}
	case c.line.by == system:
		return &user.DefaultInfo{Name: user.APIServerUser, Groups: []string{user.SystemPrivilegedGroup}}
	}
	return &user.DefaultInfo{Name: c.line.by, Groups: []string{user.AllAuthenticated}}
}

// attributes of a request for admission.
func (s *server) attributes(c *call, obj, old object, name string, op k8sadmission.Operation, options runtime.Object) k8sadmission.Attributes {
	r := c.req
	var now, before runtime.Object
	if obj != nil {
		now = obj
	}
	if old != nil {
		before = old
	}
	namespace := r.namespace
	if r.res.kind == "Namespace" {
		namespace = name
	}
	return k8sadmission.NewAttributesRecord(now, before, r.res.gvk(), namespace, name, r.res.GroupVersionResource, r.subresource, op, options, false, s.requester(c))
}

// admit has admission look at an object, and change it.
func (s *server) admit(ctx context.Context, c *call, obj, old object, op k8sadmission.Operation, options runtime.Object) error {
	name := c.req.name
	if name == "" && obj != nil {
		name = obj.GetName()
	}
	seen := internal(obj, old)
	if err := s.admission.Admit(ctx, s.attributes(c, seen, old, name, op, options), nil); err != nil {
		return err
	}
	if seen != obj {
		obj.SetAnnotations(seen.GetAnnotations())
		obj.SetLabels(seen.GetLabels())
		obj.SetFinalizers(seen.GetFinalizers())
		obj.SetOwnerReferences(seen.GetOwnerReferences())
		obj.SetResourceVersion(seen.GetResourceVersion())
	}
	return s.validate(ctx, c, obj, old, name, op, options)
}

func (s *server) validate(ctx context.Context, c *call, obj, old object, name string, op k8sadmission.Operation, options runtime.Object) error {
	return s.admission.Validate(ctx, s.attributes(c, obj, old, name, op, options), nil)
}

// internal is an object as admission gets it where that matters: with a runtime
// class, now or before, which is read from the type that only the server has.
func internal(obj, old object) object {
	u, isU := obj.(*unstructured.Unstructured)
	if !isU {
		return obj
	}
	kind, known := kinds.ByKind(u.GroupVersionKind().GroupKind())
	if !known || kind.PodTemplate == nil {
		return obj
	}
	path := append(slices.Clone(kind.PodTemplate), "spec", "runtimeClassName")
	if _, found, _ := unstructured.NestedString(u.Object, path...); !found && (old == nil || syncer.RuntimeHandler(old) == "") {
		return obj
	}
	out, err := legacyscheme.Scheme.ConvertToVersion(u, schemaInternal(kind))
	if err != nil {
		panic(err)
	}
	return out.(object)
}

func (s *server) create(ctx context.Context, c *call) answer {
	r := c.req
	switch {
	case r.subresource == "binding" && r.res.GroupResource() == placements:
		return s.bindPlacement(ctx, c)
	case r.subresource == "binding":
		return s.bind(ctx, c)
	}
	obj, err := r.res.decode(r.body)
	if err != nil {
		return failure(apierrors.NewBadRequest(err.Error()))
	}
	obj.SetNamespace(r.namespace)
	obj.SetUID("")
	if err := s.admit(ctx, c, obj, nil, k8sadmission.Create, &metav1.CreateOptions{}); err != nil {
		return failure(err)
	}
	if r.res.kind == "PlacementReview" {
		return s.front.object(r, obj) // a question: nothing is stored
	}
	return s.commit(c, func() answer {
		return s.front.result(r)(s.store.Create(c.line.by, r.res.GroupResource(), obj))
	})
}

// tries bounds how often an update is made anew from what is there now.
const tries = 8

var errChanged = errors.New("changed meanwhile")

func (s *server) update(ctx context.Context, c *call) answer {
	r := c.req
	for range tries {
		old := s.store.Find(r.key())
		if old == nil || !sees(r.scope.Target, old) {
			return failure(apierrors.NewNotFound(r.res.GroupResource(), r.name))
		}
		obj, err := s.updated(r, old)
		if err != nil {
			return failure(err)
		}
		if uid := obj.GetUID(); uid != "" && uid != old.GetUID() {
			return failure(apierrors.NewConflict(r.res.GroupResource(), r.name, fmt.Errorf("the UID in the precondition is %s, that in the object %s", uid, old.GetUID())))
		}
		if err := s.admit(ctx, c, obj, old, k8sadmission.Update, &metav1.UpdateOptions{}); err != nil {
			return failure(err)
		}
		if version := obj.GetResourceVersion(); version != "" && version != old.GetResourceVersion() {
			return failure(apierrors.NewConflict(r.res.GroupResource(), r.name, errors.New("the object has been modified")))
		}
		a := s.commit(c, func() answer {
			if s.store.Find(r.key()) != old {
				return answer{err: errChanged}
			}
			if u, isU := obj.(*unstructured.Unstructured); isU && r.subresource == "status" {
				return s.front.result(r)(s.store.UpdateStatus(c.line.by, r.res.GroupResource(), u))
			}
			return s.front.result(r)(s.store.Update(c.line.by, r.res.GroupResource(), obj))
		})
		if !errors.Is(a.err, errChanged) {
			return a
		}
	}
	return failure(apierrors.NewConflict(r.res.GroupResource(), r.name, errors.New("it changes all the time")))
}

// updated is the object that a request asks for.
func (s *server) updated(r *request, old object) (obj object, err error) {
	if r.method == http.MethodPatch {
		obj, err = r.patched(old)
		if err == nil && !namesVersion(r.body) {
			obj.SetResourceVersion("") // tried again on what is there then
		}
	} else if obj, err = r.res.decode(r.body); err != nil {
		err = apierrors.NewBadRequest(err.Error())
	}
	if err != nil {
		return nil, err
	}
	obj.SetNamespace(old.GetNamespace())
	switch {
	case r.subresource == "finalize":
		out := changed(old)
		out.SetResourceVersion(obj.GetResourceVersion())
		unstructured.RemoveNestedField(out.Object, "spec", "finalizers")
		if finalizers := stringsIn(obj, "spec", "finalizers"); len(finalizers) > 0 {
			_ = unstructured.SetNestedStringSlice(out.Object, finalizers, "spec", "finalizers") // a path of maps
		}
		return out, nil
	case r.subresource == "status":
		version := obj.GetResourceVersion()
		if r.res.typed != nil {
			obj = withStatusOf(old, obj)
		} else {
			out := changed(old)
			out.Object["status"] = obj.(*unstructured.Unstructured).Object["status"]
			obj = out
		}
		obj.SetResourceVersion(version)
	case r.res.typed != nil && hasStatusOfItsOwn[r.res.kind]:
		obj = withStatusOf(obj, old)
	}
	return obj, nil
}

// hasStatusOfItsOwn are the kinds of ours with a status subresource.
var hasStatusOfItsOwn = map[string]bool{"PhysicalCluster": true, "Placement": true, "LogicalCluster": true, "Orphan": true}

// namesVersion says that a patch is for one version of the object only.
func namesVersion(patch []byte) bool {
	var p metav1.PartialObjectMetadata
	return json.Unmarshal(patch, &p) == nil && p.ResourceVersion != ""
}

func (s *server) bind(ctx context.Context, c *call) answer {
	r := c.req
	var binding unstructured.Unstructured
	if err := binding.UnmarshalJSON(withKind(r.body, &resource{GroupVersionResource: r.res.GroupVersionResource, kind: "Binding"})); err != nil {
		return failure(apierrors.NewBadRequest(err.Error()))
	}
	if err := s.admit(ctx, c, &binding, nil, k8sadmission.Create, &metav1.CreateOptions{}); err != nil {
		return failure(err)
	}
	return s.commit(c, func() answer {
		old := s.store.Find(r.key())
		switch {
		case old == nil:
			return failure(apierrors.NewNotFound(r.res.GroupResource(), r.name))
		case binding.GetUID() != "" && binding.GetUID() != old.GetUID(), text(old, "spec", "nodeName") != "", old.GetDeletionTimestamp() != nil:
			return failure(apierrors.NewConflict(r.res.GroupResource(), r.name, errors.New("the pod is bound, or another one")))
		}
		bound := changed(old)
		node, _, _ := unstructured.NestedString(binding.Object, "target", "name")
		_ = unstructured.SetNestedField(bound.Object, node, "spec", "nodeName") // a path of maps
		return s.front.result(r)(s.store.Update(c.line.by, r.res.GroupResource(), bound))
	})
}

func (s *server) delete(ctx context.Context, c *call, name string) error {
	r := c.req
	o, err := deleteOptions(r.body)
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	options := &metav1.DeleteOptions{}
	if err := s.admission.Admit(ctx, s.attributes(c, nil, nil, name, k8sadmission.Delete, options), nil); err != nil {
		return err
	}
	key := r.key()
	key.Name = name
	for range tries {
		old := s.store.Find(key)
		if old == nil || !sees(r.scope.Target, old) {
			return apierrors.NewNotFound(r.res.GroupResource(), name)
		}
		if err := s.validate(ctx, c, nil, old, name, k8sadmission.Delete, options); err != nil {
			return err
		}
		var failed error
		a := s.commit(c, func() answer {
			if s.store.Find(key) != old {
				return answer{err: errChanged}
			}
			s.world.ledger.deletesUp(c, key, old)
			failed = s.store.Delete(c.line.by, key, o)
			return answer{}
		})
		if !errors.Is(a.err, errChanged) {
			return cmpOr(a.err, failed)
		}
	}
	return apierrors.NewConflict(r.res.GroupResource(), name, errors.New("it changes all the time"))
}

func cmpOr(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// deleteAll deletes all objects of a resource in a namespace.
func (s *server) deleteAll(ctx context.Context, c *call) answer {
	r := c.req
	match, err := s.front.selects(r)
	if err != nil {
		return failure(err)
	}
	for _, obj := range s.store.List(r.res.GroupResource()) {
		if !match(obj) {
			continue
		}
		err := s.delete(ctx, c, obj.GetName())
		if err != nil && !apierrors.IsNotFound(err) {
			return failure(err)
		}
	}
	return ok([]byte(`{"kind":"Status","apiVersion":"v1","status":"Success"}`), "deleted")
}

var _ = kube.Key{}
