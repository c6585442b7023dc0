package viewtest

import (
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
)

// ServeApplies makes the physical cluster answer an apply as a server does, as far as a
// syncer sees it: with the object, a UID, and a version that grows; one that must be new
// meets a conflict if it is not. It returns what was applied so far.
func (w *World) ServeApplies(t *testing.T) func() []string {
	t.Helper()
	var mu sync.Mutex
	var applied []string
	version := 100
	w.Below.PrependReactor("patch", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		p := a.(clienttesting.PatchAction)
		if p.GetPatchType() != types.ApplyPatchType {
			return false, nil, nil
		}
		obj := &unstructured.Unstructured{}
		if err := json.Unmarshal(p.GetPatch(), &obj.Object); err != nil {
			return true, nil, err
		}
		mu.Lock()
		defer mu.Unlock()
		existing, err := w.Below.Tracker().Get(p.GetResource(), p.GetNamespace(), p.GetName())
		if err == nil && obj.GetUID() == "" {
			return true, nil, apierrors.NewConflict(p.GetResource().GroupResource(), p.GetName(), errors.New("it is there"))
		}
		obj.SetUID(types.UID("below-" + p.GetName()))
		if err == nil {
			obj.SetUID(existing.(*unstructured.Unstructured).GetUID())
			if status, ok := existing.(*unstructured.Unstructured).Object["status"]; ok {
				obj.Object["status"] = status
			}
		}
		version++
		obj.SetResourceVersion(strconv.Itoa(version))
		obj.SetNamespace(p.GetNamespace())
		applied = append(applied, p.GetResource().Resource+" "+p.GetName())
		if err == nil {
			return true, obj, w.Below.Tracker().Update(p.GetResource(), obj, p.GetNamespace())
		}
		return true, obj, w.Below.Tracker().Create(p.GetResource(), obj, p.GetNamespace())
	})
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(applied)
	}
}
