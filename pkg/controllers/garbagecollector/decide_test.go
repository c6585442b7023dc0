package garbagecollector

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestDecideFollowsItsTruthTable(t *testing.T) {
	t.Parallel()
	const (
		orphanFinalizer     = metav1.FinalizerOrphanDependents
		foregroundFinalizer = metav1.FinalizerDeleteDependents
	)
	isSolid, isDangling, isWaiting := owner{"s", solid}, owner{"d", dangling}, owner{"w", waiting}
	blocking, passive := dependent{uid: "b", blocking: true}, dependent{uid: "p"}
	collecting := dependent{uid: "c", blocking: true, deletingDependents: true}
	some := []dependent{passive}

	for name, tc := range map[string]struct {
		deleting   bool
		finalizers []string
		owners     []owner
		dependents []dependent
		want       action
	}{
		"1 a deleted object with the orphan finalizer orphans": {
			deleting: true, finalizers: []string{"x", orphanFinalizer}, dependents: []dependent{blocking},
			want: action{verb: orphan, finalizer: orphanFinalizer},
		},
		"2 a deleted object waits for the dependents that block it": {
			deleting: true, finalizers: []string{foregroundFinalizer}, dependents: []dependent{passive, blocking},
			want: action{verb: wait, uids: []types.UID{"b"}},
		},
		"2 dependents that collect their own are not looked at again": {
			deleting: true, finalizers: []string{foregroundFinalizer}, dependents: []dependent{collecting},
			want: action{verb: wait},
		},
		"3 a deleted object that nothing blocks is released": {
			deleting: true, finalizers: []string{foregroundFinalizer}, dependents: some,
			want: action{verb: release, finalizer: foregroundFinalizer},
		},
		"4 a deleted object that others hold is left alone": {
			deleting: true, finalizers: []string{"placement.atoll.dev/copies"}, owners: []owner{isDangling}, dependents: some,
			want: action{verb: leave},
		},
		"5 an object without owners is left alone": {dependents: some, want: action{verb: leave}},
		"6 an object with solid owners is left alone": {
			owners: []owner{isSolid, isSolid}, finalizers: []string{foregroundFinalizer}, want: action{verb: leave},
		},
		"7 a solid owner keeps an object, the others are dropped": {
			owners: []owner{isDangling, isSolid, isWaiting}, dependents: some,
			want: action{verb: removeOwners, uids: []types.UID{"d", "w"}},
		},
		"8 a waiting owner and own dependents make a foreground deletion": {
			owners: []owner{isDangling, isWaiting}, dependents: some, finalizers: []string{orphanFinalizer},
			want: action{verb: remove, policy: metav1.DeletePropagationForeground},
		},
		"8 a dependent that waits as well may close a circle": {
			owners: []owner{isWaiting}, dependents: []dependent{passive, collecting},
			want: action{verb: remove, policy: metav1.DeletePropagationForeground, unblock: true},
		},
		"9 the orphan finalizer is honoured": {
			owners: []owner{isDangling}, finalizers: []string{orphanFinalizer}, dependents: some,
			want: action{verb: remove, policy: metav1.DeletePropagationOrphan},
		},
		"10 the foreground finalizer is honoured": {
			owners: []owner{isDangling}, finalizers: []string{foregroundFinalizer}, dependents: some,
			want: action{verb: remove, policy: metav1.DeletePropagationForeground},
		},
		"11 an object whose owners are gone is deleted": {
			owners: []owner{isDangling, isDangling}, dependents: some,
			want: action{verb: remove, policy: metav1.DeletePropagationBackground},
		},
		"11 a waiting owner and no dependents make a background deletion": {
			owners: []owner{isWaiting}, want: action{verb: remove, policy: metav1.DeletePropagationBackground},
		},
		"11 an object with copies is deleted like any other": {
			owners: []owner{isDangling}, finalizers: []string{"placement.atoll.dev/copies"},
			want: action{verb: remove, policy: metav1.DeletePropagationBackground},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := decide(tc.deleting, tc.finalizers, tc.owners, tc.dependents)
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(action{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAReferenceIsUnblockedWhenItGoesOrStopsBlocking(t *testing.T) {
	t.Parallel()
	yes := true
	ref := func(uid types.UID, block *bool) metav1.OwnerReference {
		return metav1.OwnerReference{UID: uid, BlockOwnerDeletion: block}
	}
	old := []metav1.OwnerReference{ref("gone", &yes), ref("stays", &yes), ref("eased", &yes), ref("never", nil)}
	now := []metav1.OwnerReference{ref("stays", &yes), ref("eased", nil)}
	want := []metav1.OwnerReference{ref("gone", &yes), ref("eased", &yes)}
	if diff := cmp.Diff(want, unblocked(old, now)); diff != "" {
		t.Error(diff)
	}
}
