package down

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/connection"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/view/viewtest"
)

// The watch cache has the Copy of before the server was restored, which says that the volume was kept, and the claim of after,
// which only this physical cluster has.
func TestAVolumeGetsItsPolicyBackOnlyIfTheServerSaysThatItWasKept(t *testing.T) {
	for name, c := range map[string]struct{ says, patched bool }{
		"it says so":       {true, true},
		"it has forgotten": {false, false},
	} {
		t.Run(name, func(t *testing.T) {
			namespace, claim := viewtest.Namespace(), viewtest.Logical("PersistentVolumeClaim", "web", "data", "c", `{"east":{}}`)
			bound := viewtest.CopyOf(claim, "below-c")
			bound.Object["spec"] = map[string]any{"volumeName": "pv"}
			volume := &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "v1", "kind": "PersistentVolume",
				"metadata": map[string]any{"name": "pv", "uid": "v", "resourceVersion": "1", "annotations": map[string]any{syncer.ReclaimPolicyAnnotation: "Delete"}},
				"spec": map[string]any{
					"persistentVolumeReclaimPolicy": "Retain",
					"claimRef":                      map[string]any{"namespace": viewtest.PhysicalSpace, "name": "data", "uid": "below-c"},
				},
			}}
			kept := viewtest.Copy(claim, placementv1alpha1.CopyStatus{
				State: placementv1alpha1.CopySynced, PhysicalNamespace: viewtest.PhysicalSpace, PhysicalUID: "below-c",
				Volume: &placementv1alpha1.CopyVolume{Name: "pv", Retained: true},
			})
			f := newFixture(t, []runtime.Object{namespace, claim}, []runtime.Object{viewtest.CopyOf(namespace, "below-n"), bound, volume}, kept)
			f.Watch(t)
			f.Records.PrependReactor("get", "copies", func(clienttesting.Action) (bool, runtime.Object, error) {
				says := kept.DeepCopy()
				says.Status.Volume.Retained = c.says
				return true, says, nil
			})
			patched := false
			f.Below.PrependReactor("patch", "persistentvolumes", func(clienttesting.Action) (bool, runtime.Object, error) {
				patched = true
				return false, nil, nil
			})
			if after := f.reconcile(t, viewtest.KeyOf("PersistentVolumeClaim", "web", "data")); patched != c.patched || after == 0 && !c.says {
				t.Errorf("it got its policy back: %t; it is looked at again after %s", patched, after)
			}
		})
	}
}

// A page of a load balancer is no word about a volume, which would go with a namespace that leaves.
func TestAVolumeThatWouldGoAlongIsNotGoneBecauseAPageSaysNotFound(t *testing.T) {
	const ofVolume = "/api/v1/persistentvolumes/pv"
	starting := apierrors.NewServiceUnavailable("starting")
	other := apierrors.NewNotFound(connection.Volumes.GroupResource(), "other")
	for name, c := range map[string]struct {
		provoke      func(*viewtest.Physical)
		found, fails bool
	}{
		"it is there":       {func(*viewtest.Physical) {}, true, false},
		"it is gone":        {func(p *viewtest.Physical) { p.Remove(connection.Volumes, "", "pv") }, false, false},
		"a page":            {func(p *viewtest.Physical) { p.Fail("get", ofVolume, viewtest.ErrPage) }, false, true},
		"another is gone":   {func(p *viewtest.Physical) { p.Fail("get", ofVolume, other) }, false, true},
		"nobody answers it": {func(p *viewtest.Physical) { p.Fail("get", ofVolume, starting) }, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			p := viewtest.NewPhysical(t)
			p.Serve(connection.Claims, "PersistentVolumeClaim", true)
			p.Serve(connection.Volumes, "PersistentVolume", false)
			claim := viewtest.Object("PersistentVolumeClaim", viewtest.PhysicalSpace, "data", "below-c")
			claim.Object["spec"] = map[string]any{"volumeName": "pv"}
			p.Put(connection.Claims, claim)
			p.Put(connection.Volumes, &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "v1", "kind": "PersistentVolume", "metadata": map[string]any{"name": "pv", "uid": "v"},
				"spec": map[string]any{
					"persistentVolumeReclaimPolicy": "Delete",
					"claimRef":                      map[string]any{"namespace": viewtest.PhysicalSpace, "name": "data", "uid": "below-c"},
				},
			}})
			c.provoke(p)
			pv, _, err := p.Clients(t).LeftVolume(t.Context(), viewtest.PhysicalSpace, "")
			if (pv != nil) != c.found || (err != nil) != c.fails {
				t.Errorf("there is %v, %v", pv, err)
			}
		})
	}
}
