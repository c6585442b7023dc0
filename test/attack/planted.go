package attack

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/syncer"
)

// Elsewhere is an address that the server must be told not to call (--tenant-egress-deny
// with DeniedNetwork): it answers that it does not, if it would.
const (
	Elsewhere     = "192.0.2.66"
	DeniedNetwork = "192.0.2.0/24"
	dialled       = "does not call " + Elsewhere
)

var endpoints = Attack{
	Name: "no address that a syncer planted is dialled for a webhook",
	Fence: func(ctx context.Context, w *World) error {
		return plant(ctx, w, false, func(ctx context.Context) error {
			own := withTarget(ctx)
			if _, err := w.mallory.kube.DiscoveryV1().EndpointSlices("web").Create(own, sliceOf(map[string]string{placementv1alpha1.UIDAnnotation: "1"}), metav1.CreateOptions{}); err != nil {
				return fmt.Errorf("planting a slice: %w", err)
			}
			return plantStatus(ctx, w)
		})
	},
	Control: func(ctx context.Context, w *World) error {
		return plant(ctx, w, true, func(ctx context.Context) error {
			_, err := w.admin.kube.DiscoveryV1().EndpointSlices("web").Create(ctx, sliceOf(nil), metav1.CreateOptions{})
			return err
		})
	},
}

func withTarget(ctx context.Context) context.Context { return scope.WithTarget(ctx, Mallory) }

func sliceOf(annotations map[string]string) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: "planted", Labels: map[string]string{discoveryv1.LabelServiceName: "hook"}, Annotations: annotations},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: ptr.To(""), Port: ptr.To[int32](443)}},
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{Elsewhere}}},
	}
}

// plantStatus says in the record of the copy of the Service that a load balancer has an address.
func plantStatus(ctx context.Context, w *World) error {
	service, err := w.admin.kube.CoreV1().Services("web").Get(ctx, "hook", metav1.GetOptions{})
	if err != nil {
		return err
	}
	namespace, err := w.admin.kube.CoreV1().Namespaces().Get(ctx, "web", metav1.GetOptions{})
	if err != nil {
		return err
	}
	_, err = w.mallory.atoll.PlacementV1alpha1().Copies("web").Create(withTarget(ctx), &placementv1alpha1.Copy{
		ObjectMeta: metav1.ObjectMeta{Name: syncer.CopyName(corev1.Resource("services"), "hook", Mallory)},
		Spec: placementv1alpha1.CopySpec{PhysicalCluster: Mallory, Object: placementv1alpha1.ObjectReference{
			Version: "v1", Resource: "services", Kind: "Service", Name: "hook", UID: service.UID,
		}},
		Status: placementv1alpha1.CopyStatus{
			State: placementv1alpha1.CopySynced, PhysicalNamespace: namespace.Annotations[placementv1alpha1.PhysicalNamespaceAnnotation],
			Observed: &runtime.RawExtension{Raw: []byte(`{"loadBalancer":{"ingress":[{"ip":"` + Elsewhere + `"}]}}`)},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("planting a status: %w", err)
	}
	return nil
}

// hooked makes a logical cluster as placed does, and a webhook for config maps at the Service "hook".
func (w *World) hooked(ctx context.Context, selector map[string]string) (context.Context, error) {
	ctx, err := w.placed(ctx)
	if err != nil {
		return nil, err
	}
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "hook"}, Spec: corev1.ServiceSpec{Selector: selector, Ports: []corev1.ServicePort{{Port: 443}}}}
	if _, err := w.admin.kube.CoreV1().Services("web").Create(ctx, service, metav1.CreateOptions{}); err != nil {
		return nil, fmt.Errorf("creating a Service: %w", err)
	}
	none := admissionregistrationv1.SideEffectClassNone
	if _, err := w.admin.kube.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(ctx, &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "hook"},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "hook.example.com", SideEffects: &none, TimeoutSeconds: ptr.To[int32](5), AdmissionReviewVersions: []string{"v1"},
			ClientConfig: admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{Namespace: "web", Name: "hook"}},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
			}},
		}},
	}, metav1.CreateOptions{}); err != nil {
		return nil, fmt.Errorf("creating a webhook: %w", err)
	}
	return ctx, nil
}

// plant makes a Service without a selector, to which a webhook leads, and has its
// address planted. The server must call there, or never.
func plant(ctx context.Context, w *World, must bool, planted func(context.Context) error) error {
	ctx, err := w.hooked(ctx, nil)
	if err != nil {
		return err
	}
	if err := planted(ctx); err != nil {
		return err
	}
	// What was planted is mirrored within a moment, if at all: it is asked many times.
	for asked := 0; ; {
		_, err := w.admin.kube.CoreV1().ConfigMaps("web").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil && strings.Contains(err.Error(), "hook.example.com") {
			asked++
		}
		called := err != nil && strings.Contains(err.Error(), dialled)
		switch {
		case called && must, asked > 60 && !must && !called:
			return nil
		case called:
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("asked %d times: %w", asked, err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

var metadata = Attack{
	Name: "a syncer holds no deletion by finalizers, and marks nothing that the server acts upon",
	Fence: func(ctx context.Context, w *World) error {
		ctx, err := w.placed(ctx)
		if err != nil {
			return err
		}
		own := withTarget(ctx)
		pods := w.mallory.kube.CoreV1().Pods("web")
		pod, err := pods.Create(own, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "a", Finalizers: []string{"example.com/hold"}, Annotations: map[string]string{placementv1alpha1.UIDAnnotation: "1", placementv1alpha1.PhysicalClusterAnnotation: "elsewhere"}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "nginx"}}},
		}, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("mirroring a pod: %w", err)
		}
		pod.Finalizers = append(pod.Finalizers, "example.com/hold")
		if pod, err = pods.Update(own, pod, metav1.UpdateOptions{}); err != nil {
			return fmt.Errorf("updating a pod: %w", err)
		}
		pod.Finalizers, pod.Status.Message = append(pod.Finalizers, "example.com/hold"), "changed"
		if pod, err = pods.UpdateStatus(own, pod, metav1.UpdateOptions{}); err != nil {
			return fmt.Errorf("updating the status of a pod: %w", err)
		}
		if err := w.report(w.own(ctx, scope.Root), func(pc *fleetv1alpha1.PhysicalCluster) {
			pc.Finalizers = append(pc.Finalizers, "example.com/hold")
			pc.Labels, pc.Annotations = map[string]string{"region": "eu"}, map[string]string{"example.com/a": "b"}
			pc.Status.Version = time.Now().String()
		}); err != nil {
			return err
		}
		pc, err := w.admin.atoll.FleetV1alpha1().PhysicalClusters().Get(scope.WithCluster(ctx, scope.Root), Mallory, metav1.GetOptions{})
		if err != nil {
			return err
		}
		switch {
		case slices.Contains(pod.Finalizers, "example.com/hold"):
			return fmt.Errorf("a pod has the finalizers %v", pod.Finalizers)
		case pod.Annotations[placementv1alpha1.PhysicalClusterAnnotation] != "":
			return errors.New("a pod is pinned")
		case slices.Contains(pc.Finalizers, "example.com/hold") || pc.Labels["region"] != "" || pc.Annotations["example.com/a"] != "":
			return fmt.Errorf("the PhysicalCluster has %v %v %v", pc.Finalizers, pc.Labels, pc.Annotations)
		case !strings.HasPrefix(pc.Status.Version, "20"):
			return errors.New("nothing was reported at all")
		}
		return w.endsWithItsRecords(ctx)
	},
	Control: func(ctx context.Context, w *World) error {
		ctx, err := w.placed(ctx)
		if err != nil {
			return err
		}
		made, err := w.admin.kube.CoreV1().ConfigMaps("web").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a", Finalizers: []string{"example.com/hold"}}}, metav1.CreateOptions{})
		if err != nil || !slices.Contains(made.Finalizers, "example.com/hold") {
			return fmt.Errorf("a user sets no finalizer: %v (%w)", made.Finalizers, err)
		}
		return nil
	},
}

// endsWithItsRecords deletes a Deployment whose removal the syncer acknowledges by a
// record with a finalizer.
func (w *World) endsWithItsRecords(ctx context.Context) error {
	d, err := w.admin.kube.AppsV1().Deployments("web").Get(ctx, "app", metav1.GetOptions{})
	if err != nil {
		return err
	}
	namespace, err := w.admin.kube.CoreV1().Namespaces().Get(ctx, "web", metav1.GetOptions{})
	if err != nil {
		return err
	}
	c := &placementv1alpha1.Copy{
		ObjectMeta: metav1.ObjectMeta{Name: syncer.CopyName(appsv1.Resource("deployments"), "app", Mallory), Finalizers: []string{"example.com/hold"}},
		Spec: placementv1alpha1.CopySpec{PhysicalCluster: Mallory, Object: placementv1alpha1.ObjectReference{
			Group: "apps", Version: "v1", Resource: "deployments", Kind: "Deployment", Name: "app", UID: d.UID,
		}},
		Status: placementv1alpha1.CopyStatus{
			State: placementv1alpha1.CopyPending, PhysicalNamespace: namespace.Annotations[placementv1alpha1.PhysicalNamespaceAnnotation],
		},
	}
	copies := w.mallory.atoll.PlacementV1alpha1().Copies("web")
	if c, err = copies.Create(withTarget(ctx), c, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("recording a copy: %w", err)
	}
	if err := w.admin.kube.AppsV1().Deployments("web").Delete(ctx, "app", metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)}); err != nil {
		return err
	}
	c.Finalizers, c.Status.State = []string{"example.com/hold"}, placementv1alpha1.CopyRemoved
	if _, err := copies.Update(withTarget(ctx), c, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("acknowledging: %w", err)
	}
	return eventually(ctx, "the record goes with the Deployment", func() error {
		list, err := w.admin.atoll.PlacementV1alpha1().Copies("web").List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, left := range list.Items {
			if left.Spec.Object.UID == d.UID {
				return fmt.Errorf("it is there with the finalizers %v", left.Finalizers)
			}
		}
		return nil
	})
}
