package attack

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/boundary"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/pkg/workload"
)

var podReviews = Attack{
	Name: "a syncer asks no logical cluster about pods but of what users have placed with it",
	Fence: func(ctx context.Context, w *World) error {
		ctx, err := w.placed(ctx)
		if err != nil {
			return err
		}
		app, err := w.admin.kube.AppsV1().Deployments("web").Get(ctx, "app", metav1.GetOptions{})
		if err != nil {
			return err
		}
		other, err := w.cluster(ctx)
		if err != nil {
			return err
		}
		planted, err := w.mallory.kube.AppsV1().ReplicaSets("web").Create(withTarget(ctx), &appsv1.ReplicaSet{
			ObjectMeta: metav1.ObjectMeta{Name: "planted", Annotations: map[string]string{placementv1alpha1.UIDAnnotation: "1"}},
			Spec:       appsv1.ReplicaSetSpec{Selector: app.Spec.Selector, Template: app.Spec.Template},
		}, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("mirroring a ReplicaSet: %w", err)
		}
		for what, try := range map[string]struct {
			ctx                   context.Context
			namespace, kind, name string
			uid                   types.UID
		}{
			"a namespace that is not placed":      {ctx, "default", "Deployment", "app", app.UID},
			"a namespace that is not there":       {ctx, "nowhere", "Deployment", "app", app.UID},
			"another logical cluster":             {other, "default", "Deployment", "app", app.UID},
			"a logical cluster that is not there": {scope.WithCluster(ctx, "imagined"), "web", "Deployment", "app", app.UID},
			"another object of the name":          {ctx, "web", "Deployment", "app", "1"},
			"an object that is not there":         {ctx, "web", "Deployment", "nobody", app.UID},
			"what it has mirrored itself":         {ctx, "web", "ReplicaSet", "planted", planted.UID},
			"all logical clusters":                {scope.WithCluster(ctx, scope.Wildcard), "web", "Deployment", "app", app.UID},
		} {
			if _, err := w.askAbout(try.ctx, try.namespace, try.kind, try.name, try.uid); !apierrors.IsForbidden(err) && !apierrors.IsNotFound(err) {
				return fmt.Errorf("%s: %w", what, errors.Join(errors.New("it is answered"), err))
			}
		}
		review := &placementv1alpha1.PodReview{Spec: placementv1alpha1.PodReviewSpec{Owner: placementv1alpha1.PodReviewOwner{Group: "apps", Kind: "Deployment", Name: "app", UID: app.UID}}}
		if _, err := w.admin.atoll.PlacementV1alpha1().PodReviews("web").Create(ctx, review, metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
			return fmt.Errorf("who is no syncer: %w", err)
		}
		if _, err := w.mallory.atoll.PlacementV1alpha1().PodReviews("web").Create(scope.WithTarget(ctx, "east"), review, metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
			return fmt.Errorf("for another physical cluster: %w", err)
		}
		return nil
	},
	Control: func(ctx context.Context, w *World) error {
		ctx, err := w.placed(ctx)
		if err != nil {
			return err
		}
		app, err := w.admin.kube.AppsV1().Deployments("web").Get(ctx, "app", metav1.GetOptions{})
		if err != nil {
			return err
		}
		review, err := w.askAbout(ctx, "web", "Deployment", "app", app.UID)
		if err == nil && !review.Status.Allowed {
			err = errors.New(review.Status.Message)
		}
		return err
	},
}

const privilegedSidecar = `[{"op":"add","path":"/spec/containers/-","value":{"name":"evil","image":"evil","securityContext":{"privileged":true}}},
	{"op":"add","path":"/metadata/namespace","value":"kube-system"},{"op":"add","path":"/metadata/labels","value":{"atoll.dev/managed-by":"evil"}}]`

var injected = Attack{
	Name: "a webhook for pods puts nothing into those below that their template may not have",
	Fence: func(ctx context.Context, w *World) error {
		pod, findings, err := w.injected(ctx, privilegedSidecar)
		if err == nil && (pod != nil || !strings.Contains(fmt.Sprint(findings), "privileged")) {
			err = fmt.Errorf("the pod is made as %v, and it is said: %v", pod, findings)
		}
		return err
	},
	// Where it is permitted the container comes, and still under no other name.
	Control: func(ctx context.Context, w *World) (err error) {
		root := scope.WithCluster(ctx, scope.Root)
		if err := w.permit(root, fleetv1alpha1.PodSecurityPrivileged); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, w.permit(root, "")) }()
		pod, findings, err := w.injected(ctx, privilegedSidecar)
		switch {
		case err != nil:
			return err
		case len(boundary.Refusals(findings)) > 0:
			return fmt.Errorf("refused: %v", findings)
		case pod.GetNamespace() != "below" || pod.GetLabels()["atoll.dev/managed-by"] == "evil":
			return fmt.Errorf("the pod has %v", pod.Object["metadata"])
		}
		containers, _, err := unstructured.NestedSlice(pod.Object, "spec", "containers")
		if err == nil && len(containers) != 2 {
			err = fmt.Errorf("the containers are %v", containers)
		}
		return err
	},
}

// manyVariables are more than a syncer merges, and fit into a pod.
const manyVariables = 20000

var variables = Attack{
	Name: "a webhook that puts ten thousands of variables into a pod does not hold up the syncer of all",
	Fence: func(ctx context.Context, w *World) error {
		_, findings, err := w.injected(ctx, variablesPatch(manyVariables))
		if err == nil && (len(findings) != 1 || !strings.Contains(findings[0].String(), "items in its lists")) {
			err = fmt.Errorf("it says %v", findings)
		}
		return err
	},
	// A pod with some of them is made.
	Control: func(ctx context.Context, w *World) error {
		pod, findings, err := w.injected(ctx, variablesPatch(100))
		if err == nil && (pod == nil || len(boundary.Refusals(findings)) > 0) {
			err = fmt.Errorf("some variables are refused: %v", findings)
		}
		return err
	},
}

func variablesPatch(n int) string {
	var all strings.Builder
	for i := range n {
		fmt.Fprintf(&all, `{"name":"A%d"},`, i)
	}
	return `[{"op":"add","path":"/spec/containers/0/env","value":[` + strings.TrimSuffix(all.String(), ",") + `]}]`
}

// injected has a webhook of a tenant change a pod, and returns what an honest syncer makes of the answer.
func (w *World) injected(ctx context.Context, patch string) (*unstructured.Unstructured, []boundary.Finding, error) {
	h := startHook(patch, nil)
	defer h.Close()
	ctx, err := w.hookedBy(ctx, h, 1)
	if err != nil {
		return nil, nil, err
	}
	review, err := w.askAboutApp(ctx, h)
	if err != nil {
		return nil, nil, err
	}
	if review.Status.Pod == nil {
		return nil, nil, fmt.Errorf("the pod is not changed: %s", review.Status.Message)
	}
	pc, err := w.admin.atoll.FleetV1alpha1().PhysicalClusters().Get(scope.WithCluster(ctx, scope.Root), Mallory, metav1.GetOptions{})
	if err != nil {
		return nil, nil, err
	}
	pods, _ := workload.Builtin().ByKind(schema.GroupKind{Kind: "Pod"})
	made, before, after := &unstructured.Unstructured{}, &unstructured.Unstructured{}, &unstructured.Unstructured{}
	if err := errors.Join(made.UnmarshalJSON(review.Spec.Pod.Raw), before.UnmarshalJSON(review.Spec.Pod.Raw), after.UnmarshalJSON(review.Status.Pod.Raw)); err != nil {
		return nil, nil, err
	}
	made.SetNamespace("below")
	return syncer.Admission{Pod: pods, Made: made, Before: before, After: after,
		Placing: syncer.Placing{Ref: syncer.Ref{Kind: pods, Namespace: "web"}, ControlPlane: "cp", Namespace: "below", Permits: pc.Permits()}}.Admitted()
}

// manyOperations are more than a user's patch may have, and fit into an answer.
const manyOperations = 30000

// front puts items before the first of a list.
func front(operations int) string {
	const one = `{"op":"add","path":"/spec/containers/0/args/0","value":"a"},`
	return `[{"op":"add","path":"/spec/containers/0/args","value":[]},` + strings.TrimSuffix(strings.Repeat(one, operations), ",") + "]"
}

var operations = Attack{
	Name: "a webhook answers no patch of so many operations that applying it holds a processor",
	Fence: func(ctx context.Context, w *World) error {
		h := startHook(front(manyOperations), nil)
		defer h.Close()
		ctx, err := w.hookedBy(ctx, h, 1)
		if err != nil {
			return err
		}
		review, err := w.askAboutApp(ctx, h)
		if err != nil {
			return err
		}
		const words = "its patch has more than"
		if review.Status.Allowed || !strings.Contains(review.Status.Message, words) {
			return fmt.Errorf("of a pod it is said: %t %.200s", review.Status.Allowed, review.Status.Message)
		}
		_, err = w.admin.kube.CoreV1().ConfigMaps("web").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{})
		if err == nil || !strings.Contains(err.Error(), words) {
			return fmt.Errorf("a ConfigMap is answered: %w", err)
		}
		return nil
	},
	// Who applies it as it is copies the list for each of its operations.
	Control: func(ctx context.Context, w *World) error {
		const some, most = manyOperations / 3, 256 << 20
		patch, err := jsonpatch.DecodePatch([]byte(front(some)))
		if err != nil {
			return err
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, err := patch.Apply([]byte(plainPod)); err != nil {
			return err
		}
		runtime.ReadMemStats(&after)
		if copied := after.TotalAlloc - before.TotalAlloc; copied < most {
			return fmt.Errorf("a third of the operations copies %d MiB only", copied>>20)
		}
		return nil
	},
}

// doubling makes an annotation, and copies all of them into each other: 2 MiB of some bytes.
func doubling() string {
	return `[{"op":"add","path":"/metadata/annotations","value":{"a":"` + strings.Repeat("a", 256<<10) + `"}},` +
		`{"op":"copy","from":"/metadata/annotations/a","path":"/metadata/annotations/b"},{"op":"copy","from":"/metadata/annotations/a","path":"/metadata/annotations/c"},` +
		`{"op":"copy","from":"/metadata/annotations/a","path":"/metadata/annotations/d"},{"op":"copy","from":"/metadata/annotations/a","path":"/metadata/annotations/e"},` +
		`{"op":"copy","from":"/metadata/annotations/a","path":"/metadata/annotations/f"},{"op":"copy","from":"/metadata/annotations/a","path":"/metadata/annotations/g"}]`
}

var grown = Attack{
	Name: "webhooks make of a pod no more than can be stored",
	Fence: func(ctx context.Context, w *World) error {
		review, err := w.grown(ctx, doubling())
		if err == nil && (review.Status.Allowed || review.Status.Pod != nil || !strings.Contains(review.Status.Message, "can be stored")) {
			err = fmt.Errorf("it is said: %t %.200s", review.Status.Allowed, review.Status.Message)
		}
		return err
	},
	Control: func(ctx context.Context, w *World) error {
		review, err := w.grown(ctx, `[{"op":"add","path":"/metadata/annotations","value":{"a":"b"}}]`)
		if err == nil && (!review.Status.Allowed || review.Status.Pod == nil) {
			err = fmt.Errorf("a small one is not made: %s", review.Status.Message)
		}
		return err
	},
}

func (w *World) grown(ctx context.Context, patch string) (*placementv1alpha1.PodReview, error) {
	h := startHook(patch, nil)
	defer h.Close()
	ctx, err := w.hookedBy(ctx, h, 1)
	if err != nil {
		return nil, err
	}
	return w.askAboutApp(ctx, h)
}

const (
	// flood is how many ask at a time, mostAsked how many of them may have a webhook called.
	flood, mostAsked = 200, 64
	// others is for how long somebody else waits in vain.
	others = 20 * time.Second
)

var floods = Attack{
	Name: "a syncer that asks without end has a bounded number of webhooks called, and holds up no other",
	Fence: func(ctx context.Context, w *World) error {
		most, err := w.flood(ctx, func(ctx context.Context, app types.UID) error {
			_, err := w.askAbout(ctx, "web", "Deployment", "app", app)
			return err
		}, func(ctx context.Context) error {
			own := w.own(ctx, scope.Root)
			_, err := w.mallory.atoll.FleetV1alpha1().PhysicalClusters().Get(own, Mallory, metav1.GetOptions{})
			return errors.Join(err, w.beat(ctx))
		})
		switch {
		case err != nil:
			return err
		case most > mostAsked:
			return fmt.Errorf("%d webhooks were called at a time", most)
		}
		return nil
	},
	// Calls for admins are not counted.
	Control: func(ctx context.Context, w *World) error {
		most, err := w.flood(ctx, func(ctx context.Context, _ types.UID) error {
			_, err := w.admin.kube.CoreV1().ConfigMaps("web").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{GenerateName: "a-"}}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			return err
		}, nil)
		if err == nil && most <= mostAsked {
			err = fmt.Errorf("%d webhooks only were called at a time", most)
		}
		return err
	},
}

// flood asks many times at once while the webhook answers nobody, and returns how many it was
// asked at a time. Meanwhile, other has to be served.
func (w *World) flood(ctx context.Context, ask func(context.Context, types.UID) error, other func(context.Context) error) (int32, error) {
	held := make(chan struct{})
	h := startHook("", held)
	defer h.Close()
	release := sync.OnceFunc(func() { close(held) })
	defer release()
	ctx, err := w.hookedBy(ctx, h, 1)
	if err != nil {
		return 0, err
	}
	app, err := w.admin.kube.AppsV1().Deployments("web").Get(ctx, "app", metav1.GetOptions{})
	if err != nil {
		return 0, err
	}
	if err := eventually(ctx, "the webhook is called", func() error {
		brief, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if _ = ask(brief, app.UID); h.most.Load() == 0 {
			return errors.New("it is not")
		}
		return nil
	}); err != nil {
		return 0, err
	}
	questions, cancel := context.WithCancel(ctx)
	defer cancel()
	var all sync.WaitGroup
	for range flood {
		all.Go(func() { _ = ask(questions, app.UID) })
	}
	if err := eventually(ctx, "many are asked about", func() error {
		if n := h.most.Load(); n < mostAsked/8 {
			return fmt.Errorf("%d", n)
		}
		return nil
	}); err != nil {
		return 0, err
	}
	if other != nil {
		waiting, cancel := context.WithTimeout(ctx, others)
		err = other(waiting)
		cancel()
	} else {
		err = eventually(ctx, "more than the bound are asked about", func() error {
			if n := h.most.Load(); n <= mostAsked {
				return fmt.Errorf("%d", n)
			}
			return nil
		})
	}
	cancel()
	release()
	all.Wait()
	return h.most.Load(), err
}
