package auth

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	rbacapply "k8s.io/client-go/applyconfigurations/rbac/v1"
	"k8s.io/client-go/util/retry"

	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/test/framework/server"
)

func TestDefaultRolesAreSeenInEveryLogicalCluster(t *testing.T) {
	s := shared(t)
	a, b := s.NewCluster(t, "defaults-a"), s.NewCluster(t, "defaults-b")
	roles := s.Kube.RbacV1().ClusterRoles()
	list, err := roles.List(a, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, r := range list.Items {
		names = append(names, r.Name)
	}
	if !slices.IsSorted(names) || !slices.Contains(names, "cluster-admin") || !slices.Contains(names, "system:discovery") || list.ResourceVersion == "" {
		t.Errorf("listed at %q: %v", list.ResourceVersion, names)
	}
	inA, err := roles.Get(a, "edit", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	inB, err := roles.Get(b, "edit", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if inA.UID == inB.UID || inA.UID == "" || inA.ResourceVersion == "" || inA.CreationTimestamp.IsZero() || len(inA.Rules) == 0 {
		t.Errorf("edit of a: UID %q, version %q, made %s, %d rules; UID of b: %q", inA.UID, inA.ResourceVersion, inA.CreationTimestamp, len(inA.Rules), inB.UID)
	}
	labelled, err := roles.List(a, metav1.ListOptions{LabelSelector: "rbac.authorization.k8s.io/aggregate-to-view=true"})
	if err != nil || len(labelled.Items) == 0 || len(labelled.Items) == len(list.Items) {
		t.Errorf("by label: %d of %d, %v", len(labelled.Items), len(list.Items), err)
	}
	named, err := roles.List(a, metav1.ListOptions{FieldSelector: "metadata.name=view"})
	if err != nil || len(named.Items) != 1 || named.Items[0].Name != "view" {
		t.Errorf("by name: %v, %v", named, err)
	}
	bindings, err := s.Kube.RbacV1().ClusterRoleBindings().List(a, metav1.ListOptions{})
	if err != nil || !slices.ContainsFunc(bindings.Items, func(b rbacv1.ClusterRoleBinding) bool { return b.Name == "cluster-admin" }) {
		t.Errorf("bindings: %v", err)
	}
	all, err := roles.List(scope.WithCluster(t.Context(), scope.Wildcard), metav1.ListOptions{})
	if err != nil || slices.ContainsFunc(all.Items, func(r rbacv1.ClusterRole) bool { return r.Name == "view" }) {
		t.Errorf("the list over all logical clusters has defaults, or fails: %v", err)
	}
}

func TestListsWithDefaultsArePaged(t *testing.T) {
	s := shared(t)
	ctx := s.NewCluster(t, "paged-defaults")
	roles := s.Kube.RbacV1().ClusterRoles()
	for _, name := range []string{"aaa", "system:m", "zzz"} {
		if _, err := roles.Create(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"own": "yes"}}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	whole, err := roles.List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var got []rbacv1.ClusterRole
	options := metav1.ListOptions{Limit: 7}
	for {
		page, err := roles.List(ctx, options)
		if err != nil {
			t.Fatal(err)
		}
		if len(page.Items) > 7 || len(page.Items) < 7 && page.Continue != "" {
			t.Errorf("a page of %d at %s, continued by %q", len(page.Items), page.ResourceVersion, page.Continue)
		}
		got = append(got, page.Items...)
		if page.Continue == "" {
			break
		}
		if left := len(whole.Items) - len(got); page.RemainingItemCount == nil || int(*page.RemainingItemCount) != left {
			t.Errorf("%v remain after %d, want %d", page.RemainingItemCount, len(got), left)
		}
		options.Continue = page.Continue
	}
	if diff := cmp.Diff(whole.Items, got); diff != "" {
		t.Errorf("all pages (-whole +paged):\n%s", diff)
	}
}

func TestPagesOfAListWithDefaultsAreOfOneVersion(t *testing.T) {
	s := shared(t)
	ctx := s.NewCluster(t, "paged-version")
	roles := s.Kube.RbacV1().ClusterRoles()
	whole, err := roles.List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	first, err := roles.List(ctx, metav1.ListOptions{Limit: 5})
	if err != nil || len(first.Items) != 5 {
		t.Fatalf("the first page has %d, %v", len(first.Items), err)
	}
	// What is made and changed between two pages is on none of them.
	if _, err := roles.Create(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "zzz-late"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	view, err := roles.Get(ctx, "view", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	view.Labels["late"] = "yes"
	if _, err := roles.Update(ctx, view, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	rest, err := roles.List(ctx, metav1.ListOptions{Limit: 500, Continue: first.Continue})
	if err != nil || rest.ResourceVersion != first.ResourceVersion {
		t.Fatalf("the next page is of %s, the first of %s, %v", rest.ResourceVersion, first.ResourceVersion, err)
	}
	if diff := cmp.Diff(whole.Items, append(first.Items, rest.Items...)); diff != "" {
		t.Errorf("both pages (-before +paged):\n%s", diff)
	}
	// The token has a name and a version, and nothing of its logical cluster.
	elsewhere := s.NewCluster(t, "paged-elsewhere")
	other, err := roles.List(elsewhere, metav1.ListOptions{Continue: first.Continue})
	if err == nil && slices.ContainsFunc(other.Items, func(r rbacv1.ClusterRole) bool { return r.Annotations["kcp.io/cluster"] != "paged-elsewhere" }) {
		t.Errorf("in another logical cluster: %v", other.Items)
	}
	if _, err := roles.List(ctx, metav1.ListOptions{Limit: 5, Continue: "bm90aGluZw"}); !apierrors.IsBadRequest(err) {
		t.Errorf("a token of nothing: %v, want BadRequest", err)
	}
}

func TestAWatchBeginsWithDefaultsAndSeesTheirChanges(t *testing.T) {
	s := shared(t)
	ctx := s.NewCluster(t, "defaults-watch")
	roles := s.Kube.RbacV1().ClusterRoles()
	yes := true
	w, err := roles.Watch(ctx, metav1.ListOptions{SendInitialEvents: &yes, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan, AllowWatchBookmarks: true})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	next := func() watch.Event {
		select {
		case e := <-w.ResultChan():
			return e
		case <-time.After(10 * time.Second):
			t.Fatal("no event")
			return watch.Event{}
		}
	}
	var seen []string
	for e := next(); e.Type != watch.Bookmark; e = next() {
		if e.Type == watch.Added {
			seen = append(seen, e.Object.(*rbacv1.ClusterRole).Name)
		}
	}
	if !slices.Contains(seen, "view") || !slices.Contains(seen, "cluster-admin") {
		t.Fatalf("the watch begins with %v", seen)
	}
	view := change(t, func() (*rbacv1.ClusterRole, error) { return roles.Get(ctx, "system:basic-user", metav1.GetOptions{}) }, func(r *rbacv1.ClusterRole) (*rbacv1.ClusterRole, error) {
		r.Rules = nil
		return roles.Update(ctx, r, metav1.UpdateOptions{})
	})
	if e := next(); e.Type != watch.Modified || e.Object.(*rbacv1.ClusterRole).ResourceVersion != view.ResourceVersion {
		t.Errorf("after the first change: %s %v", e.Type, e.Object)
	}
	if err := roles.Delete(ctx, "system:basic-user", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if e := next(); e.Type != watch.Modified || len(e.Object.(*rbacv1.ClusterRole).Rules) == 0 {
		t.Errorf("after the return to the default: %s %v", e.Type, e.Object)
	}
}

func change[T any](t *testing.T, get func() (T, error), update func(T) (T, error)) (out T) {
	t.Helper()
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		obj, err := get()
		if err != nil {
			return err
		}
		out, err = update(obj)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestAChangedDefaultIsOfItsLogicalClusterOnlyAndDeletingItBringsTheDefaultBack(t *testing.T) {
	s := shared(t)
	a, b := s.NewCluster(t, "changed-a"), s.NewCluster(t, "changed-b")
	roles := s.Kube.RbacV1().ClusterRoles()
	_, err := roles.Create(a, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "system:basic-user"}}, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		t.Errorf("creating a default: %v, want AlreadyExists", err)
	}
	if err := roles.Delete(a, "system:basic-user", metav1.DeleteOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("deleting a default: %v, want Forbidden", err)
	}
	before, err := roles.Get(a, "system:basic-user", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	patch, _ := json.Marshal(map[string]any{"metadata": map[string]any{"labels": map[string]string{"mine": "yes"}}, "rules": []any{}})
	dry, err := roles.Patch(a, "system:basic-user", types.MergePatchType, patch, metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil || dry.Labels["mine"] != "yes" {
		t.Errorf("a dry run: %v, %v", dry, err)
	}
	after, err := roles.Patch(a, "system:basic-user", types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if after.UID != before.UID || after.ResourceVersion == before.ResourceVersion || after.Labels["mine"] != "yes" || len(after.Rules) != 0 {
		t.Errorf("before %v, after %v", before, after)
	}
	if other, err := roles.Get(b, "system:basic-user", metav1.GetOptions{}); err != nil || len(other.Rules) == 0 {
		t.Errorf("the other logical cluster has %v, %v", other, err)
	}
	before.Labels["stale"] = "yes"
	if _, err := roles.Update(a, before, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("an update of what was read before: %v, want Conflict", err)
	}
	if list, err := roles.List(a, metav1.ListOptions{LabelSelector: "mine=yes"}); err != nil || len(list.Items) != 1 {
		t.Errorf("by its new label: %v, %v", list, err)
	}
	if err := roles.Delete(a, "system:basic-user", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if again, err := roles.Get(a, "system:basic-user", metav1.GetOptions{}); err != nil || len(again.Rules) == 0 || again.Labels["mine"] != "" {
		t.Errorf("after deleting the changed one: %v, %v", again, err)
	}
}

func TestTakingFromADefaultBindingTakesFromItsSubjects(t *testing.T) {
	s := shared(t)
	ctx := s.NewCluster(t, "no-discovery")
	bind(ctx, t, s, "system:kube-dns", "ann")
	eventually(t, "discovery by default", func() error {
		_, err := as(s, "ann", "system:authenticated").Discovery().RESTClient().Get().AbsPath("/api").DoRaw(ctx)
		return err
	})
	bindings := s.Kube.RbacV1().ClusterRoleBindings()
	for _, name := range []string{"system:discovery", "system:public-info-viewer"} {
		if _, err := bindings.Apply(ctx, rbacapply.ClusterRoleBinding(name).WithRoleRef(rbacapply.RoleRef().WithAPIGroup(rbacv1.GroupName).WithKind("ClusterRole").WithName(name)).
			WithSubjects(rbacapply.Subject().WithAPIGroup(rbacv1.GroupName).WithKind("User").WithName("nobody")), metav1.ApplyOptions{FieldManager: "t", Force: true}); err != nil {
			t.Fatal(err)
		}
		change(t, func() (*rbacv1.ClusterRoleBinding, error) { return bindings.Get(ctx, name, metav1.GetOptions{}) }, func(b *rbacv1.ClusterRoleBinding) (*rbacv1.ClusterRoleBinding, error) {
			b.Subjects = nil
			return bindings.Update(ctx, b, metav1.UpdateOptions{})
		})
	}
	eventually(t, "discovery is taken away", func() error {
		_, err := as(s, "ann", "system:authenticated").Discovery().RESTClient().Get().AbsPath("/api").DoRaw(ctx)
		if apierrors.IsForbidden(err) {
			return nil
		}
		return fmt.Errorf("still: %w", errors.Join(err, errors.New("not forbidden")))
	})
}

func TestALogicalClusterWithChangedDefaultsCanBeDeleted(t *testing.T) {
	s := shared(t)
	ctx := s.NewCluster(t, "changed-gone")
	roles := s.Kube.RbacV1().ClusterRoles()
	if _, err := roles.Patch(ctx, "view", types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	root := scope.WithCluster(t.Context(), scope.Root)
	if err := s.Atoll.TenancyV1alpha1().LogicalClusters().Delete(root, "changed-gone", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the logical cluster is gone", func() error {
		_, err := s.Atoll.TenancyV1alpha1().LogicalClusters().Get(root, "changed-gone", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("still there: %v", err)
	})
}

func TestANonMemberDiscoversNothing(t *testing.T) {
	s := shared(t)
	ctx := s.NewCluster(t, "members")
	discover := func(name string, groups ...string) error {
		_, err := as(s, name, append(groups, "system:authenticated")...).Discovery().RESTClient().Get().AbsPath("/apis").DoRaw(ctx)
		return err
	}
	for _, name := range []string{"ann", "bea", "cem"} {
		if err := discover(name, "team"); !apierrors.IsForbidden(err) {
			t.Errorf("%s, before: %v, want Forbidden", name, err)
		}
	}
	// A label on a default binding for everybody lets nobody in.
	if _, err := s.Kube.RbacV1().ClusterRoleBindings().Patch(ctx, "system:discovery", types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	bind(ctx, t, s, "view", "ann")
	role := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"}
	inNamespace := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "team"}, RoleRef: role, Subjects: []rbacv1.Subject{{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: "team"}}}
	if _, err := s.Kube.RbacV1().RoleBindings("default").Create(ctx, inNamespace, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "who is named discovers", func() error { return discover("ann") })
	eventually(t, "whose group is named discovers", func() error { return discover("bea", "team") })
	if err := discover("cem", "other"); !apierrors.IsForbidden(err) {
		t.Errorf("cem: %v, want Forbidden", err)
	}
}

func TestAChangedDefaultOutlivesARestart(t *testing.T) {
	dir := t.TempDir()
	s := server.StartIn(t, dir)
	ctx := s.NewCluster(t, "restarted")
	s.NewCluster(t, "restarted-too")
	before, err := s.Kube.RbacV1().ClusterRoles().Patch(ctx, "view", types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	edit, err := s.Kube.RbacV1().ClusterRoles().Get(ctx, "edit", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s.Stop(t)
	s = server.StartIn(t, dir)
	view, err := s.Kube.RbacV1().ClusterRoles().Get(ctx, "view", metav1.GetOptions{})
	if err != nil || view.Labels["a"] != "b" || view.UID != before.UID {
		t.Errorf("view %v, %v", view, err)
	}
	if again, err := s.Kube.RbacV1().ClusterRoles().Get(ctx, "edit", metav1.GetOptions{}); err != nil || again.UID != edit.UID {
		t.Errorf("edit has the UID %s, then %s, %v", edit.UID, again.UID, err)
	}
	if other, err := s.Kube.RbacV1().ClusterRoles().Get(in(t, "restarted-too"), "view", metav1.GetOptions{}); err != nil || other.Labels["a"] != "" {
		t.Errorf("the other logical cluster has %v, %v", other, err)
	}
}
