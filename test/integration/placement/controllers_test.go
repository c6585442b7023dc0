package placement

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/pkg/workload"
	"github.com/atoll-dev/atoll/test/framework/server"
)

func testRepair(t *testing.T) {
	ctx := newCluster(t, "repair")
	namespace(t, ctx, "web")
	create(t, ctx, "web", deployment("a"))
	before, err := shared.Kube.CoreV1().Namespaces().Get(ctx, "web", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	lose := []byte(`{"metadata":{"finalizers":null,"annotations":{"placement.atoll.dev/targets":null,"placement.atoll.dev/physical-namespace":null}}}`)
	if _, err := systemKube(t).CoreV1().Namespaces().Patch(ctx, "web", types.MergePatchType, lose, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	server.Eventually(t, waitTimeout, "the stamp is back", func() error {
		ns, err := shared.Kube.CoreV1().Namespaces().Get(ctx, "web", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if diff := cmp.Diff([]any{before.Annotations, before.Finalizers}, []any{ns.Annotations, ns.Finalizers}); diff != "" {
			return fmt.Errorf("(-before +after):\n%s", diff)
		}
		return nil
	})
}

func testStatus(t *testing.T) {
	ctx := newCluster(t, "status")
	policy(t, "status", func(s *placementv1alpha1.PolicySpec) { s.Terms = only("region", "eu") })
	ns := namespace(t, ctx, "web")
	d := create(t, ctx, "web", deployment("a"))
	phase := func(want placementv1alpha1.TargetPhase, settled metav1.ConditionStatus, reason string) {
		t.Helper()
		server.Eventually(t, waitTimeout, "the target is "+string(want)+" and settled "+string(settled), func() error {
			p := placementOf(t, ctx, "web")
			if len(p.Status.Targets) != 1 {
				return fmt.Errorf("targets %+v", p.Status.Targets)
			}
			c := meta.FindStatusCondition(p.Status.Conditions, placementv1alpha1.ConditionSettled)
			if p.Status.Targets[0].Phase != want || c == nil || c.Status != settled || c.Reason != reason {
				return fmt.Errorf("%+v, %+v", p.Status.Targets, c)
			}
			return nil
		})
	}
	phase(placementv1alpha1.TargetStarting, metav1.ConditionFalse, "CopiesPending")

	_, atoll := syncerClients(t, "east")
	east := scope.WithTarget(ctx, "east")
	write := func(name string, uid types.UID, state placementv1alpha1.CopyState) *placementv1alpha1.Copy {
		t.Helper()
		c := aCopy("east", name)
		c.Spec.Object.UID, c.Status.State, c.Status.Message = uid, state, "because"
		if uid == ns.UID {
			c.Spec.Object = placementv1alpha1.ObjectReference{Version: "v1", Resource: "namespaces", Kind: "Namespace", Name: name, UID: uid}
		}
		created, err := atoll.PlacementV1alpha1().Copies("web").Create(east, c, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return created
	}
	write("web", ns.UID, placementv1alpha1.CopySynced)
	record := write("a", d.UID, placementv1alpha1.CopyFailed)
	phase(placementv1alpha1.TargetStarting, metav1.ConditionFalse, "CopiesFailed")
	record.Status.State = placementv1alpha1.CopySynced
	if _, err := atoll.PlacementV1alpha1().Copies("web").Update(east, record, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	phase(placementv1alpha1.TargetActive, metav1.ConditionTrue, "Settled")
	create(t, ctx, "web", deployment("b"))
	phase(placementv1alpha1.TargetActive, metav1.ConditionFalse, "CopiesPending")
}

func testReferences(t *testing.T) {
	ctx := newCluster(t, "references")
	policy(t, "references", func(s *placementv1alpha1.PolicySpec) { s.Terms = only("region", "eu") })
	namespace(t, ctx, "web")
	configMaps, secrets := shared.Kube.CoreV1().ConfigMaps("web"), shared.Kube.CoreV1().Secrets("web")
	for _, name := range []string{"used", "unused"} {
		if _, err := configMaps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	d := deployment("a")
	d.Spec.Template.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "used"}}}}
	d.Spec.Template.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "late"}}
	d.Spec.Template.Spec.Volumes = []corev1.Volume{{Name: "ca", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"}}}}}
	d = create(t, ctx, "web", d)
	if _, err := secrets.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "late"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	configMap := func(name string) (metav1.Object, error) { return configMaps.Get(ctx, name, metav1.GetOptions{}) }
	secret := func(name string) (metav1.Object, error) { return secrets.Get(ctx, name, metav1.GetOptions{}) }
	is := func(get func(string) (metav1.Object, error), name, want string) {
		t.Helper()
		server.Eventually(t, waitTimeout, "the targets of "+name, func() error {
			o, err := get(name)
			if err != nil {
				return err
			}
			return expect("annotation", want, o.GetAnnotations()[placementv1alpha1.TargetsAnnotation])
		})
	}
	is(configMap, "used", `{"east":{}}`)
	is(secret, "late", `{"east":{}}`)
	is(configMap, "kube-root-ca.crt", "")
	is(configMap, "unused", "")

	d.Spec.Template.Spec.Containers[0].EnvFrom = nil
	if _, err := shared.Kube.AppsV1().Deployments("web").Update(ctx, d, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	is(configMap, "used", `{"east":{"state":"Removing"}}`)
	is(secret, "late", `{"east":{}}`)
}

func readiness(ctx context.Context, name string) (*metav1.Condition, error) {
	pc, err := shared.Atoll.FleetV1alpha1().PhysicalClusters().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	if c := meta.FindStatusCondition(pc.Status.Conditions, fleetv1alpha1.ConditionReady); c != nil {
		return c, nil
	}
	return nil, fmt.Errorf("it has no condition Ready")
}

// testSilence looks at the beginning only; that silence is noticed after a time
// is the unit tests' matter.
func testSilence(t *testing.T) {
	ctx := root(t)
	pc := &fleetv1alpha1.PhysicalCluster{ObjectMeta: metav1.ObjectMeta{Name: "silent"}}
	client := shared.Atoll.FleetV1alpha1().PhysicalClusters()
	if _, err := client.Create(ctx, pc, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	server.Eventually(t, waitTimeout, "it is unknown, has an id and a finalizer", func() error {
		c, err := readiness(ctx, "silent")
		if err != nil {
			return err
		}
		if c.Status != metav1.ConditionUnknown || c.Reason != fleetv1alpha1.ReasonNoHeartbeat {
			return fmt.Errorf("Ready is %+v", c)
		}
		got, err := client.Get(ctx, "silent", metav1.GetOptions{})
		if err != nil {
			return err
		}
		rootCluster, err := shared.Atoll.TenancyV1alpha1().LogicalClusters().Get(ctx, "root", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if err := expect("the id of the control plane", string(rootCluster.UID), got.Status.ControlPlane); err != nil {
			return err
		}
		return expect("the finalizers", fleetv1alpha1.CopiesFinalizer, fmt.Sprint(got.Finalizers[0]))
	})
	if err := client.Delete(ctx, "silent", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	server.Eventually(t, waitTimeout, "one that nothing uses is gone", func() error {
		_, err := client.Get(ctx, "silent", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("still there: %v", err)
	})
}

// What is on a forgotten physical cluster starts elsewhere, also what policies never move; a claim
// keeps its namespace until who has it gives it up. Then nothing holds the PhysicalCluster.
func testForget(t *testing.T) {
	ctx := newCluster(t, "forget")
	register(t, "doomed", map[string]string{"region": "doomed"}, ownTaint)
	beat(t, "doomed")
	policy(t, "forget", func(s *placementv1alpha1.PolicySpec) {
		s.Terms, s.Move = only("region", "doomed"), &placementv1alpha1.MoveRules{Mode: placementv1alpha1.MoveNever}
		s.Tolerations = []corev1.Toleration{{Key: ownTaint.Key, Operator: corev1.TolerationOpExists}}
	})
	namespace(t, ctx, "store")
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data"}, Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: ptr.To("fast"),
		Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
	}}
	if _, err := shared.Kube.CoreV1().PersistentVolumeClaims("store").Create(ctx, claim, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	create(t, ctx, "store", deployment("s"))
	// It waits for what makes pods, and follows a moment later: before that it has nothing to lose.
	server.Eventually(t, waitTimeout, "the claim is where its namespace is", func() error {
		got, err := shared.Kube.CoreV1().PersistentVolumeClaims("store").Get(ctx, claim.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		return expect("its targets", "doomed", targetsOf(got))
	})
	namespace(t, ctx, "web")
	d := create(t, ctx, "web", deployment("a"))
	create(t, ctx, "web", deployment("unmade"))
	_, atoll := syncerClients(t, "doomed")
	c := aCopy("doomed", "a")
	c.Spec.Object.UID, c.Status.State = d.UID, placementv1alpha1.CopySynced
	if _, err := atoll.PlacementV1alpha1().Copies("web").Create(scope.WithTarget(ctx, "doomed"), c, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	client := shared.Atoll.FleetV1alpha1().PhysicalClusters()
	if err := client.Delete(root(t), "doomed", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	server.Eventually(t, waitTimeout, "it says what holds it", func() error {
		pc, err := client.Get(root(t), "doomed", metav1.GetOptions{})
		if err != nil {
			return err
		}
		held := meta.FindStatusCondition(pc.Status.Conditions, "Removable")
		if held == nil || held.Message != "1 copies in 2 placements are still on it" {
			return fmt.Errorf("condition %+v", held)
		}
		return nil
	})
	register(t, "refuge", map[string]string{"region": "doomed"}, ownTaint)
	beat(t, "refuge")
	if _, err := client.Patch(root(t), "doomed", types.MergePatchType, []byte(`{"spec":{"forget":true}}`), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	server.Eventually(t, waitTimeout, "the report names the copy", func() error {
		pc, err := client.Get(root(t), "doomed", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if pc.Status.Forgotten == nil {
			return fmt.Errorf("no report")
		}
		return expect("the report", "1 [forget/web/deployments/a]", fmt.Sprint(pc.Status.Forgotten.Copies, " ", pc.Status.Forgotten.Sample))
	})
	moved := func(ctx context.Context, namespace string, deployments ...string) {
		t.Helper()
		server.Eventually(t, waitTimeout, namespace+" is elsewhere", func() error {
			p := placementOf(t, ctx, namespace)
			said := "nothing"
			if c := meta.FindStatusCondition(p.Status.Conditions, placementv1alpha1.ConditionMoving); c != nil {
				said = c.Reason + ": " + c.Message
			}
			if on := strings.Join(stamp.UnitOf(p).Names(), ","); on != "doomed,refuge" {
				return expect("where it is ("+said+")", "refuge", on)
			}
			if p.Spec.Transition.Cause != placementv1alpha1.CauseLost {
				t.Errorf("%s moves for the cause %s", namespace, p.Spec.Transition.Cause)
			}
			return errors.Join(fmt.Errorf("it is on its way: %s", said), inPlace(t, ctx, namespace, "refuge", deployments...))
		})
	}
	moved(ctx, "web", "a", "unmade")
	server.Eventually(t, waitTimeout, "the claim keeps its namespace, and says why", func() error {
		c := meta.FindStatusCondition(placementOf(t, ctx, "store").Status.Conditions, placementv1alpha1.ConditionMoving)
		if c == nil {
			return errors.New("it says nothing")
		}
		return expect("the condition", "Blocked: PersistentVolumeClaim data: its volume is on doomed, which was given up; delete the claim to go on without its data", c.Reason+": "+c.Message)
	})
	if _, err := client.Get(root(t), "doomed", metav1.GetOptions{}); err != nil {
		t.Errorf("it is gone with the claim: %v", err)
	}
	if err := shared.Kube.CoreV1().PersistentVolumeClaims("store").Delete(ctx, "data", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	moved(ctx, "store", "s")
	server.Eventually(t, waitTimeout, "nothing holds the PhysicalCluster", func() error {
		pc, err := client.Get(root(t), "doomed", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return err
		}
		held := meta.FindStatusCondition(pc.Status.Conditions, "Removable")
		return fmt.Errorf("still there: %+v", held)
	})
}

// inPlace writes what the syncer of a physical cluster says when it has made the copies of
// Deployments, and of what they need.
func inPlace(t *testing.T, ctx context.Context, namespace, target string, deployments ...string) error {
	_, atoll := syncerClients(t, target)
	made := func(resource string, o metav1.Object) error {
		kind, ok := workload.Builtin().ByResource(schema.ParseGroupResource(resource))
		if !ok {
			t.Fatalf("%s are not placed", resource)
		}
		c := &placementv1alpha1.Copy{
			ObjectMeta: metav1.ObjectMeta{Name: syncer.CopyName(kind.GroupResource(), o.GetName(), target)},
			Spec: placementv1alpha1.CopySpec{PhysicalCluster: target, Object: placementv1alpha1.ObjectReference{
				Group: kind.Group, Version: kind.Version, Resource: kind.Resource, Kind: kind.Kind, Name: o.GetName(), UID: o.GetUID(),
			}},
			Status: placementv1alpha1.CopyStatus{State: placementv1alpha1.CopySynced, AppliedGeneration: o.GetGeneration()},
		}
		copies, ctx := atoll.PlacementV1alpha1().Copies(namespace), scope.WithTarget(ctx, target)
		_, err := copies.Create(ctx, c, metav1.CreateOptions{})
		if !apierrors.IsAlreadyExists(err) {
			return err
		}
		// A stamp is a new generation of a Deployment, and is applied, too.
		was, err := copies.Get(ctx, c.Name, metav1.GetOptions{})
		if err != nil || was.Status.AppliedGeneration == c.Status.AppliedGeneration {
			return err
		}
		was.Status = c.Status
		_, err = copies.Update(ctx, was, metav1.UpdateOptions{})
		return err
	}
	ns, err := shared.Kube.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
	if err != nil {
		return err
	}
	errs := []error{made("namespaces", ns)}
	for _, name := range deployments {
		d, err := shared.Kube.AppsV1().Deployments(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		errs = append(errs, made("deployments.apps", d))
	}
	maps, err := shared.Kube.CoreV1().ConfigMaps(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range maps.Items {
		if strings.Contains(targetsOf(&maps.Items[i]), target) {
			errs = append(errs, made("configmaps", &maps.Items[i]))
		}
	}
	return errors.Join(errs...)
}
