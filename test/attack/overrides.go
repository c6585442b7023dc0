package attack

import (
	"context"
	"errors"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/boundary"
	"github.com/atoll-dev/atoll/pkg/override"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/pkg/workload"
)

const ofPods = "/spec/template/spec/"

// smuggled are overrides that want what the user may not write. The name is that of the
// object; what goes down must not contain evil.
var smuggled = []struct{ name, patch, evil string }{
	{"privileged", `[{"op":"add","path":"` + ofPods + `containers/0/securityContext","value":{"privileged":true}}]`, `"privileged":true`},
	{"host-path", `[{"op":"add","path":"` + ofPods + `volumes","value":[{"name":"a","hostPath":{"path":"/"}}]}]`, "hostPath"},
	{"host-network", `[{"op":"add","path":"` + ofPods + `hostNetwork","value":true}]`, `"hostNetwork":true`},
	{"host-port", `[{"op":"add","path":"` + ofPods + `containers/0/ports","value":[{"containerPort":80,"hostPort":10250}]}]`, "10250"},
	{"node-name", `[{"op":"add","path":"` + ofPods + `nodeName","value":"node-1"}]`, "node-1"},
	{"tolerations", `[{"op":"add","path":"` + ofPods + `tolerations","value":[{"operator":"Exists"}]}]`, `"tolerations":[`},
	{"priority", `[{"op":"add","path":"` + ofPods + `priorityClassName","value":"system-node-critical"}]`, `"priorityClassName":`},
	{"account", `[{"op":"add","path":"` + ofPods + `serviceAccountName","value":"boss"}]`, "boss"},
	{"token", `[{"op":"add","path":"` + ofPods + `volumes","value":[{"name":"a","projected":{"sources":[{"serviceAccountToken":{"audience":"cloud","path":"t"}}]}}]}]`, "cloud"},
	{"secret", `[{"op":"add","path":"` + ofPods + `volumes","value":[{"name":"a","secret":{"secretName":"` + plantedSecret + `"}}]}]`, plantedSecret},
	{"whole-template", `[{"op":"replace","path":"/spec/template","value":{"metadata":{"labels":{"app":"app"}},"spec":{"hostPID":true,"containers":[{"name":"c","image":"nginx"}]}}}]`, `"hostPID":true`},
	{"pod-security", `[{"op":"add","path":"/metadata/labels/pod-security.kubernetes.io~1enforce","value":"privileged"}]`, ""},
}

// forbidden are patches of which no policy may have any.
var forbidden = map[string]string{
	"copying":                 `[{"op":"copy","path":"/spec/template","value":"/spec"}]`,
	"moving":                  `[{"op":"move","path":"/spec/template","value":"/spec"}]`,
	"another name":            `[{"op":"replace","path":"/metadata/name","value":"b"}]`,
	"another namespace":       `[{"op":"replace","path":"/metadata/namespace","value":"kube-system"}]`,
	"another kind":            `[{"op":"replace","path":"/kind","value":"Pod"}]`,
	"owners":                  `[{"op":"add","path":"/metadata/ownerReferences","value":[]}]`,
	"targets":                 `[{"op":"add","path":"/metadata/annotations/placement.atoll.dev~1targets","value":"{}"}]`,
	"our mark":                `[{"op":"replace","path":"/metadata/labels/atoll.dev~1managed-by","value":"x"}]`,
	"our mark on pods":        `[{"op":"add","path":"/spec/template/metadata/labels/atoll.dev~1managed-by","value":"x"}]`,
	"our mark within a value": `[{"op":"add","path":"/spec/template/metadata","value":{"annotations":{"atoll.dev/uid":"x"}}}]`,
	"the whole object":        `[{"op":"replace","path":"","value":{}}]`,
	"a long path":             `[{"op":"add","path":"` + strings.Repeat("/a", 1000) + `","value":1}]`,
	"a deep value":            `[{"op":"add","path":"/spec/a","value":` + strings.Repeat("[", 1000) + strings.Repeat("]", 1000) + `}]`,
	"many operations":         `[` + strings.Repeat(`{"op":"remove","path":"/spec/paused"},`, 1000) + `{"op":"remove","path":"/spec/paused"}]`,
	"much":                    `[{"op":"add","path":"/metadata/annotations/a","value":"` + strings.Repeat("a", override.MaxBytesOfPolicy) + `"}]`,
}

var overrides = Attack{
	Name: "an override of a tenant's policy brings nothing down that the tenant may not write itself",
	Fence: func(ctx context.Context, w *World) error {
		down, err := w.overridden(ctx)
		if err != nil {
			return err
		}
		for _, s := range smuggled {
			if d := down[s.name]; !d.refused && s.evil != "" && strings.Contains(d.text, s.evil) {
				return fmt.Errorf("%s goes down: %s", s.name, d.text)
			}
		}
		return nil
	},
	// Where the physical cluster permits it, the overrides do what they say.
	Control: func(ctx context.Context, w *World) (err error) {
		root := scope.WithCluster(ctx, scope.Root)
		if err := w.permit(root, fleetv1alpha1.PodSecurityPrivileged); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, w.permit(root, "")) }()
		down, err := w.overridden(ctx)
		if err != nil {
			return err
		}
		for _, s := range smuggled[:2] {
			if d := down[s.name]; d.refused || !strings.Contains(d.text, s.evil) {
				return fmt.Errorf("%s does not go down: %s", s.name, d.text)
			}
		}
		return nil
	},
}

var patches = Attack{
	Name: "no policy has an override that renames, marks, copies, or is without a bound",
	Fence: func(ctx context.Context, w *World) error {
		return w.overrides(ctx, forbidden, func(what string, err error) error {
			if !apierrors.IsInvalid(err) && !apierrors.IsForbidden(err) && !apierrors.IsBadRequest(err) {
				return fmt.Errorf("%s: %w", what, errors.Join(errors.New("it is not refused"), err))
			}
			return nil
		})
	},
	Control: func(ctx context.Context, w *World) error {
		return w.overrides(ctx, map[string]string{"a label": `[{"op":"add","path":"/metadata/labels/a","value":"b"}]`}, func(_ string, err error) error { return err })
	},
}

// overrides writes policies, as a tenant, with a patch each.
func (w *World) overrides(ctx context.Context, patches map[string]string, answered func(string, error) error) error {
	ctx, err := w.placed(ctx)
	if err != nil {
		return err
	}
	who, err := w.tenant(ctx)
	if err != nil {
		return err
	}
	for what, patch := range patches {
		_, err := who.atoll.PlacementV1alpha1().PlacementPolicies("web").Create(ctx, policyOf("hostile", patch), metav1.CreateOptions{})
		if err := answered(what, err); err != nil {
			return err
		}
		_, err = who.atoll.PlacementV1alpha1().ClusterPlacementPolicies().Create(ctx, &placementv1alpha1.ClusterPlacementPolicy{
			ObjectMeta: metav1.ObjectMeta{Name: "hostile"}, Spec: placementv1alpha1.PolicySpec{PolicyRules: policyOf("hostile", patch).Spec.PolicyRules},
		}, metav1.CreateOptions{})
		if err := answered(what+", of the logical cluster", err); err != nil {
			return err
		}
	}
	return nil
}

func policyOf(name, patch string, objects ...string) *placementv1alpha1.PlacementPolicy {
	o := placementv1alpha1.Override{}
	if err := json.Unmarshal([]byte(patch), &o.Patch); err != nil {
		panic(err)
	}
	if len(objects) > 0 {
		o.Objects = &placementv1alpha1.ObjectSelection{Names: objects}
	}
	return &placementv1alpha1.PlacementPolicy{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: placementv1alpha1.PlacementPolicySpec{PolicyRules: placementv1alpha1.PolicyRules{Overrides: []placementv1alpha1.Override{o}}}}
}

// wentDown is what an honest syncer makes of an object.
type wentDown struct {
	refused bool
	text    string
}

// overridden has a tenant's policies override Deployments in all the ways of smuggled, and
// returns what goes down of each by what the syncer of mallory is given.
func (w *World) overridden(ctx context.Context) (map[string]wentDown, error) {
	ctx, err := w.placed(ctx)
	if err != nil {
		return nil, err
	}
	who, err := w.tenant(ctx)
	if err != nil {
		return nil, err
	}
	app, err := w.admin.kube.AppsV1().Deployments("web").Get(ctx, "app", metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	for _, s := range smuggled {
		if _, err := who.atoll.PlacementV1alpha1().PlacementPolicies("web").Create(ctx, policyOf(s.name, s.patch, s.name), metav1.CreateOptions{}); err != nil {
			return nil, fmt.Errorf("creating the policy %s: %w", s.name, err)
		}
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: s.name, Labels: map[string]string{"app": "app"}}, Spec: app.Spec}
		if _, err := who.kube.AppsV1().Deployments("web").Create(ctx, d, metav1.CreateOptions{}); err != nil {
			return nil, fmt.Errorf("creating a Deployment: %w", err)
		}
	}
	pc, err := w.admin.atoll.FleetV1alpha1().PhysicalClusters().Get(scope.WithCluster(ctx, scope.Root), Mallory, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	down := map[string]wentDown{}
	for _, s := range smuggled {
		if err := eventually(ctx, "the override "+s.name+" is stamped", func() error {
			d, err := w.mallory.kube.AppsV1().Deployments("web").Get(withTarget(ctx), s.name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if d.APIVersion, d.Kind = "apps/v1", "Deployment"; len(stamp.TargetsOf(d.Annotations)[Mallory].Overrides) == 0 {
				return fmt.Errorf("the targets are %v", stamp.TargetsOf(d.Annotations))
			}
			down[s.name], err = goesDown(d, pc)
			return err
		}); err != nil {
			return nil, err
		}
	}
	namespace, err := w.mallory.kube.CoreV1().Namespaces().Get(withTarget(ctx), "web", metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	if namespace.APIVersion, namespace.Kind = "v1", "Namespace"; len(stamp.TargetsOf(namespace.Annotations)[Mallory].Overrides) > 0 {
		return nil, errors.New("the Namespace is overridden")
	}
	below, err := goesDown(namespace, pc)
	if err == nil && strings.Contains(below.text, `"pod-security.kubernetes.io/enforce":"privileged"`) && pc.Spec.Tenancy.PodSecurity == "" {
		err = fmt.Errorf("the Namespace goes down as %s", below.text)
	}
	return down, err
}

// goesDown is what the syncer of a physical cluster applies for an object.
func goesDown(obj metav1.Object, pc *fleetv1alpha1.PhysicalCluster) (wentDown, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return wentDown{}, err
	}
	logical := &unstructured.Unstructured{Object: content}
	kind, ok := workload.Builtin().ByKind(schema.FromAPIVersionAndKind(logical.GetAPIVersion(), logical.GetKind()).GroupKind())
	if !ok {
		return wentDown{}, fmt.Errorf("no kind %s", logical.GetKind())
	}
	out, findings := syncer.Transform(logical, syncer.Placing{
		Ref:          syncer.Ref{Kind: kind, Cluster: "attacked", Namespace: obj.GetNamespace(), Name: obj.GetName()},
		ControlPlane: "cp", Namespace: "below", Permits: pc.Permits(), Target: stamp.TargetsOf(obj.GetAnnotations())[pc.Name],
	})
	text, err := out.MarshalJSON()
	return wentDown{refused: len(boundary.Refusals(findings)) > 0, text: string(text)}, err
}
