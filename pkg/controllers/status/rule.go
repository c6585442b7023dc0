package status

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/pkg/workload"
	"github.com/atoll-dev/atoll/pkg/workload/statusrule"
)

// ruled is a merged status with what the rule of a declared kind says; changed says that it
// differs from what the object has. A rule that fails decides nothing, and the user hears of it.
func (s *Controller) ruled(ctx context.Context, kind workload.Kind, obj *unstructured.Unstructured, copies []*placementv1alpha1.Copy, merged map[string]any) (status map[string]any, changed bool, err error) {
	current, _ := obj.Object["status"].(map[string]any)
	targets, statuses := syncer.Reported(obj, copies)
	if len(targets) == 0 {
		return merged, !syncer.SameStatus(merged, current), nil
	}
	said := make([]statusrule.Copy, 0, len(targets))
	for i, target := range targets {
		said = append(said, statusrule.Copy{PhysicalCluster: target, Status: statuses[i]})
	}
	fields, err := s.evaluate(kind.Status.Rule, obj, merged, said)
	if err != nil {
		return merged, !syncer.SameStatus(merged, current), s.complain(ctx, obj, err)
	}
	delete(fields, "observedGeneration") // it advances when every target has observed it
	status = maps.Clone(merged)
	if status == nil {
		status = map[string]any{}
	}
	maps.Copy(status, fields)
	return status, !syncer.SameStatus(status, current), nil
}

func (s *Controller) evaluate(text string, obj *unstructured.Unstructured, merged map[string]any, said []statusrule.Copy) (map[string]any, error) {
	rule, ok := s.rules.Get(text)
	if !ok {
		compiled, err := statusrule.Compile(text)
		if err != nil {
			return nil, err
		}
		s.rules.Add(text, compiled)
		rule = compiled
	}
	return rule.(*statusrule.Rule).Evaluate(obj.Object, merged, said)
}

// maxComplaint bounds the message of an event.
const maxComplaint = 512

// complain makes an event on an object of which the rule fails: one for each message.
func (s *Controller) complain(ctx context.Context, obj *unstructured.Unstructured, problem error) error {
	message := "the rule of its kind fails: " + problem.Error()
	message = message[:min(len(message), maxComplaint)]
	sum := sha256.Sum256([]byte(string(obj.GetUID()) + message))
	name := obj.GetName()
	event := &corev1.Event{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Event"},
		ObjectMeta: metav1.ObjectMeta{Namespace: obj.GetNamespace(), Name: name[:min(len(name), 200)] + "." + hex.EncodeToString(sum[:6])},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: obj.GetAPIVersion(), Kind: obj.GetKind(), Namespace: obj.GetNamespace(), Name: name, UID: obj.GetUID(),
		},
		Reason: "StatusRuleFailed", Message: message, Type: corev1.EventTypeWarning, Count: 1,
		FirstTimestamp: metav1.NewTime(s.now()), LastTimestamp: metav1.NewTime(s.now()), Source: corev1.EventSource{Component: "atoll"},
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(event)
	if err != nil {
		return fmt.Errorf("making an event: %w", err)
	}
	_, err = s.Dynamic.Resource(corev1.SchemeGroupVersion.WithResource("events")).Namespace(obj.GetNamespace()).
		Create(ctx, &unstructured.Unstructured{Object: content}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("writing an event: %w", err)
	}
	return nil
}
