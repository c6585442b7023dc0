package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	"github.com/atoll-dev/atoll/test/framework/process"
)

// bindingOfThePage is the command by which docs/manifests.md has an admin grant an agent its rights.
func bindingOfThePage(t *testing.T) []string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(process.Root(), "docs", "manifests.md"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(page)) {
		if words := strings.Fields(line); len(words) > 1 && words[0] == "kubectl" && words[1] == "create" {
			return words[1:]
		}
	}
	t.Fatal("the page does not say it")
	return nil
}

// An agent with the rights of its manifest carries what those allow; what lacks is said with the way out,
// and what the page says is enough.
func TestAnAgentCarriesWhatAnAdminOfItsPhysicalClusterGrants(t *testing.T) {
	t.Parallel()
	if err := process.Missing("kubectl-atoll"); err != nil {
		t.Skip(err)
	}
	const name = "cay"
	ctx, root := context.Background(), theLab.root
	p := theLab.addPhysical(t, name)
	must(t)(p.Apply(ctx, must(t)(runPlugin(ctx, root, "register", name, "--agent", "--image", "example.com/atoll-syncer:test"))))
	t.Cleanup(func() { must(t)(root.Run(ctx, "delete", "physicalcluster/"+name, "--timeout=3m")) })
	must(t)(root.Run(ctx, "patch", "physicalcluster/"+name, "--type=merge", "-p", `{"spec":{"taints":[{"key":"only","effect":"PreferNoSchedule"}]}}`))
	var made appsv1.Deployment
	get(t, p.In("atoll-system"), &made, "deployment", "atoll-syncer")
	args := append(argsOf(made, mounted(t, p.In("atoll-system"), made.Spec.Template.Spec)), "--physical-kubeconfig", asAccount(t, p))
	log := theLab.path(name + "-syncer.log")
	start(t, process.Spec{Path: process.Binary("atoll-syncer"), Args: args, Log: log, Ready: "certificate"})
	eventually(t, func() error {
		_, err := runPlugin(ctx, root, "approve", name, "--fingerprint", fingerprintIn(t, log))
		return err
	})
	must(t)(root.Run(ctx, "wait", "--for=condition=Ready", "physicalcluster/"+name, "--timeout=3m"))
	if features := must(t)(root.Run(ctx, "get", "physicalcluster", name, "-o", "jsonpath={.status.features}")); !strings.Contains(features, fleetv1alpha1.FeatureManifests) {
		t.Errorf("its features are %s", features)
	}

	must(t)(root.Apply(ctx, "{apiVersion: v1, kind: Namespace, metadata: {name: granted, annotations: {placement.atoll.dev/cluster: "+name+"}}}"))
	in := root.In("granted")
	must(t)(in.Apply(ctx, manifestOf("settings", "{apiVersion: v1, kind: ConfigMap, metadata: {name: settings, namespace: kube-system}, data: {a: b}}")+
		manifestOf("class", "{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: granted}, provisioner: example.com/granted}")+
		manifestOf("role", "{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: granted}, rules: [{apiGroups: ['*'], resources: ['*'], verbs: ['*']}]}")))
	applied := func(manifest, want string) func() error {
		return func() error {
			obj, err := custom(in, "manifest", manifest)
			if err != nil {
				return err
			}
			if got := textOf(obj, "status", "conditions"); !strings.Contains(got, want) || want != fleetv1alpha1.ReasonApplied && !strings.Contains(got, "ClusterRoleBinding") {
				return fmt.Errorf("the conditions of %s are %s, want %s and what helps", manifest, got, want)
			}
			return nil
		}
	}
	must(t)(in.Run(ctx, "wait", "--for=condition=Applied", "manifest/settings", "--timeout=2m")) // its own rights are enough
	eventually(t, applied("class", "Forbidden"))                                                 // it may list them, and no more
	eventually(t, applied("role", fleetv1alpha1.ReasonKindsNotKnown))
	must(t)("", errors.Join(absent(p.Kubectl, &storagev1.StorageClass{}, "storageclass", "granted"), absent(p.Kubectl, &rbacv1.ClusterRole{}, "clusterrole", "granted")))

	must(t)(p.Run(ctx, bindingOfThePage(t)...))
	must(t)(in.Run(ctx, "wait", "--for=condition=Applied", "manifests", "--all", "--timeout=4m")) // refusals are tried again within two minutes
	must(t)("", errors.Join(isThere(p.Kubectl, &storagev1.StorageClass{}, "storageclass", "granted"), isThere(p.Kubectl, &rbacv1.ClusterRole{}, "clusterrole", "granted")))

	must(t)(root.Run(ctx, "delete", "namespace", "granted", "--timeout=3m"))
	must(t)("", errors.Join(absent(p.Kubectl, &storagev1.StorageClass{}, "storageclass", "granted"), absent(p.Kubectl, &rbacv1.ClusterRole{}, "clusterrole", "granted"),
		absent(p.In("kube-system"), &corev1.ConfigMap{}, "configmap", "settings")))
}

// A server that is restored from a backup does not know of Manifests that were made after it: what they
// carried is there, and is listed.
func TestWhatManifestsCarriedThatABackupDoesNotKnowIsListedAndOrdered(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	l := startSecondServer(t)
	east := l.east.In("default")
	settings := func(name string) string {
		return manifestOf(name, "{apiVersion: v1, kind: ConfigMap, metadata: {name: lost-"+name+", namespace: default}, data: {a: b}}")
	}
	must(t)(l.root.Apply(ctx, "{apiVersion: v1, kind: Namespace, metadata: {name: addons, annotations: {placement.atoll.dev/cluster: east}}}"))
	in := l.root.In("addons")
	must(t)(in.Apply(ctx, settings("kept")))
	must(t)(in.Run(ctx, "wait", "--for=condition=Applied", "manifest/kept", "--timeout=2m"))
	keepBackup(t, l)
	must(t)(in.Apply(ctx, settings("removed")+settings("adopted")))
	must(t)(in.Run(ctx, "wait", "--for=condition=Applied", "manifests", "--all", "--timeout=2m"))
	uids := map[string]string{}
	for _, name := range []string{"kept", "removed", "adopted"} {
		uids[name] = must(t)(east.Run(ctx, "get", "configmap", "lost-"+name, "-o", "jsonpath={.metadata.uid}"))
	}
	// Somebody makes one more of what is there, with its labels and annotations.
	child := must(t)(east.Run(ctx, "get", "configmap", "lost-removed", "-o", "yaml"))
	must(t)(east.Apply(ctx, strings.NewReplacer("name: lost-removed\n", "name: lost-child\n", "uid: "+uids["removed"], "").Replace(child)))
	t.Cleanup(func() {
		must(t)(east.Run(ctx, "delete", "configmap", "lost-child", "lost-kept", "lost-adopted", "--ignore-not-found"))
	})
	restoreOrphanage(t, l)

	orphans := map[string]string{}
	eventually(t, func() error {
		clear(orphans)
		var list fleetv1alpha1.OrphanList
		if _, err := l.root.Get(ctx, &list, "orphans"); err != nil {
			return err
		}
		for _, o := range list.Items {
			orphans[o.Spec.Object.Name] = o.Name
			if o.Spec.Object.Kind != "ConfigMap" || o.Spec.Claim.LogicalCluster != "root" || o.Status.Reason != fleetv1alpha1.ReasonNotFound {
				return fmt.Errorf("listed is %+v, %+v", o.Spec, o.Status)
			}
		}
		return counts(ctx, l, 2, 2)
	})
	if orphans["lost-removed"] == "" || orphans["lost-adopted"] == "" {
		t.Fatalf("listed are %v", orphans)
	}
	must(t)(l.root.Run(ctx, "patch", "orphan", orphans["lost-removed"], "--type=merge", "-p", `{"spec":{"order":"Remove"}}`))
	eventually(t, func() error {
		return errors.Join(unlisted(ctx, l, orphans["lost-removed"]), absent(east, &corev1.ConfigMap{}, "configmap", "lost-removed"))
	})
	must(t)(in.Apply(ctx, settings("adopted")))
	must(t)(in.Run(ctx, "wait", "--for=condition=Applied", "manifest/adopted", "--timeout=2m"))
	eventually(t, func() error { return unlisted(ctx, l, orphans["lost-adopted"]) })
	for _, name := range []string{"kept", "adopted"} {
		if now := must(t)(east.Run(ctx, "get", "configmap", "lost-"+name, "-o", "jsonpath={.metadata.uid}")); now != uids[name] {
			t.Errorf("%s was made anew", name)
		}
	}
	must(t)("", isThere(east, &corev1.ConfigMap{}, "configmap", "lost-child"))
	eventually(t, func() error { return counts(ctx, l, 0, 0) })
	must(t)(l.root.Run(ctx, "delete", "namespace", "addons", "--timeout=2m"))
	must(t)("", isThere(east, &corev1.ConfigMap{}, "configmap", "lost-child"))
}
