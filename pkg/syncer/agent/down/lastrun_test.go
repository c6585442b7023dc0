package down

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/view/viewtest"
)

const ran = "2026-01-01T11:59:00Z"

// cronJob ran elsewhere, and is to be here.
func cronJob(targets string) *unstructured.Unstructured {
	obj := viewtest.Logical("CronJob", "web", "tick", "t", targets)
	obj.Object["status"] = map[string]any{"lastScheduleTime": ran}
	return obj
}

// patchesBelow notes the merge patches that the physical cluster gets, by what they change, and answers
// them as a server does that knows versions.
func (f *fixture) patchesBelow(answer error) *[]string {
	var patched []string
	f.Below.PrependReactor("patch", "cronjobs", func(a clienttesting.Action) (bool, runtime.Object, error) {
		p := a.(clienttesting.PatchAction)
		if p.GetPatchType() != types.MergePatchType {
			return false, nil, nil // an apply
		}
		var patch struct {
			Metadata struct {
				UID             string `json:"uid"`
				ResourceVersion string `json:"resourceVersion"`
			} `json:"metadata"`
			Status map[string]string `json:"status"`
		}
		if err := json.Unmarshal(p.GetPatch(), &patch); err != nil {
			return true, nil, err
		}
		existing, err := f.Below.Tracker().Get(p.GetResource(), p.GetNamespace(), p.GetName())
		if err != nil {
			return true, nil, err
		}
		now := existing.(*unstructured.Unstructured)
		if string(now.GetUID()) != patch.Metadata.UID || now.GetResourceVersion() != patch.Metadata.ResourceVersion {
			patched = append(patched, "outdated")
			return true, nil, apierrors.NewConflict(p.GetResource().GroupResource(), p.GetName(), errors.New("it has changed"))
		}
		patched = append(patched, strings.TrimSpace(p.GetSubresource()+" "+patch.Status["lastScheduleTime"]))
		return answer != nil, nil, answer
	})
	return &patched
}

func TestACronJobThatIsMadeHereGoesOnFromItsLastRun(t *testing.T) {
	forbidden := apierrors.NewForbidden(viewtest.Kind("CronJob").GroupResource(), "tick", errors.New("no patch of cronjobs/status"))
	for name, c := range map[string]struct {
		below   func() *unstructured.Unstructured // what is there already, as the syncer was stopped
		answer  error
		patched []string
		reason  string
		last    string
	}{
		"it is new": {patched: []string{"status " + ran}, last: ran},
		"the syncer was stopped before": {below: func() *unstructured.Unstructured {
			return viewtest.CopyOf(cronJob(`{"east":{}}`), "below-tick")
		}, patched: []string{"status " + ran}, last: ran},
		"and a run was begun meanwhile": {below: func() *unstructured.Unstructured {
			obj := viewtest.CopyOf(cronJob(`{"east":{}}`), "below-tick")
			obj.Object["status"] = map[string]any{"lastScheduleTime": "2026-01-01T12:00:00Z"}
			return obj
		}, last: "2026-01-01T12:00:00Z"},
		"the physical cluster refuses it": {answer: forbidden, patched: []string{"status " + ran}, reason: "RunMayBeMissed"},
	} {
		t.Run(name, func(t *testing.T) {
			namespace, logical := viewtest.Namespace(), cronJob(`{"east":{}}`)
			record := viewtest.Copy(logical, placementv1alpha1.CopyStatus{State: placementv1alpha1.CopyPending, Reason: "New", PhysicalNamespace: viewtest.PhysicalSpace})
			below := []runtime.Object{viewtest.CopyOf(namespace, "below-n")}
			if c.below != nil {
				below = append(below, c.below())
			}
			f := newFixture(t, []runtime.Object{namespace, logical}, below, record)
			f.ServeApplies(t)
			patched := f.patchesBelow(c.answer)
			f.Watch(t)
			key := viewtest.KeyOf("CronJob", "web", "tick")
			f.reconcile(t, key)
			if diff := cmp.Diff(c.patched, *patched); diff != "" {
				t.Errorf("patched (-want +got)\n%s", diff)
			}
			got := f.Record(t, key).Status
			if got.State != placementv1alpha1.CopySynced || got.Reason != c.reason || got.PhysicalUID != "below-tick" {
				t.Errorf("the Copy says %s %s of %s: %s", got.State, got.Reason, got.PhysicalUID, got.Message)
			}
			last, _, _ := unstructured.NestedString(f.lookBelow(t).Object, "status", "lastScheduleTime")
			if last != c.last {
				t.Errorf("below it ran last at %q", last)
			}
			viewtest.Eventually(t, "the watches have what was written", func() bool {
				c, _ := f.View.Copy(key)
				below, ok := f.View.Physical(key.Resource, controller.Request{Namespace: viewtest.PhysicalSpace, Name: "tick"})
				return ok && below.GetResourceVersion() == f.lookBelow(t).GetResourceVersion() && c.Status.State == placementv1alpha1.CopySynced
			})
			f.reconcile(t, key)
			if len(*patched) != len(c.patched) {
				t.Errorf("patched again: %q", *patched)
			}
		})
	}
}

func (f *fixture) lookBelow(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	obj, err := f.Below.Tracker().Get(viewtest.Kind("CronJob").GroupVersionResource(), viewtest.PhysicalSpace, "tick")
	if err != nil {
		t.Fatal(err)
	}
	return obj.(*unstructured.Unstructured).DeepCopy()
}

// The controller below begins a run between the look and the deletion: that is another version.
func TestACronJobThatLeavesIsNotDeletedUnderARunThatBegins(t *testing.T) {
	namespace, logical := viewtest.Namespace(), cronJob(`{"east":{"state":"Removing"}}`)
	copied := viewtest.CopyOf(logical, "below-t")
	copied.SetResourceVersion("7")
	record := viewtest.Copy(logical, placementv1alpha1.CopyStatus{State: placementv1alpha1.CopySynced, PhysicalNamespace: viewtest.PhysicalSpace, PhysicalUID: "below-t"})
	f := newFixture(t, []runtime.Object{namespace, logical}, []runtime.Object{viewtest.CopyOf(namespace, "below-n"), copied}, record)
	patched := f.patchesBelow(nil)
	deleted := 0
	f.Below.PrependReactor("delete", "cronjobs", func(a clienttesting.Action) (bool, runtime.Object, error) {
		deleted++
		only := a.(clienttesting.DeleteActionImpl).DeleteOptions.Preconditions
		if only == nil || only.ResourceVersion == nil || *only.ResourceVersion != "7" {
			t.Errorf("deleted upon %+v", only)
		}
		begun := f.lookBelow(t)
		begun.SetResourceVersion("8")
		begun.Object["status"] = map[string]any{"lastScheduleTime": "2026-01-01T12:00:00Z", "active": []any{map[string]any{"name": "tick-1"}}}
		if err := f.Below.Tracker().Update(a.GetResource(), begun, a.GetNamespace()); err != nil {
			t.Error(err)
		}
		return true, nil, apierrors.NewConflict(a.GetResource().GroupResource(), "tick", errors.New("it has changed"))
	})
	f.Watch(t)
	key := viewtest.KeyOf("CronJob", "web", "tick")
	if again := f.reconcile(t, key); again <= 0 || again > time.Minute {
		t.Errorf("it is looked at again after %s", again)
	}
	if deleted != 1 || len(*patched) != 1 || (*patched)[0] != "" {
		t.Errorf("%d deletions, patched %q", deleted, *patched)
	}
	if suspended, _, _ := unstructured.NestedBool(f.lookBelow(t).Object, "spec", "suspend"); !suspended {
		t.Error("it may begin another run")
	}
	if got := f.Record(t, key).Status; got.State != placementv1alpha1.CopyRemoving || got.Reason != placementv1alpha1.ReasonJobRuns ||
		!strings.Contains(string(got.Observed.Raw), "12:00:00") {
		t.Errorf("the Copy says %s %s: %s", got.State, got.Reason, got.Observed.Raw)
	}
}
