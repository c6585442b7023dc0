package main

import (
	"context"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// lead is a controller as its framework makes it: it knows itself by POD_NAMESPACE, POD_NAME
// and POD_UID, takes the Lease "operator", and then makes itself the owner of that Lease and
// of the ConfigMap "state". The ConfigMap "of-nobody" has an owner that never was.
func lead(ctx context.Context, _ []string) error {
	config, err := rest.InClusterConfig()
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	namespace, name := os.Getenv("POD_NAMESPACE"), os.Getenv("POD_NAME")
	lock, err := resourcelock.New(resourcelock.LeasesResourceLock, namespace, "operator", client.CoreV1(), client.CoordinationV1(), resourcelock.ResourceLockConfig{Identity: name})
	if err != nil {
		return err
	}
	var failed error
	ctx, stop := context.WithCancel(ctx)
	leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
		Lock: lock, ReleaseOnCancel: true,
		LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: time.Second,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) {
				if failed = own(ctx, client, namespace, name, types.UID(os.Getenv("POD_UID"))); failed != nil {
					stop()
					return
				}
				fmt.Println("leading as", name)
			},
			OnStoppedLeading: stop,
		},
	})
	return failed
}

// own makes the pod the owner, again and again until it is: what the pod before it owned is
// collected at this very moment, the Lease too.
func own(ctx context.Context, client kubernetes.Interface, namespace, name string, uid types.UID) error {
	for configMap, uid := range map[string]types.UID{"state": uid, "of-nobody": "00000000-0000-4000-8000-000000000000"} {
		made := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Name: configMap, OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: name, UID: uid}},
		}}
		if err := until(ctx, apierrors.IsAlreadyExists, func() error {
			_, err := client.CoreV1().ConfigMaps(namespace).Create(ctx, made, metav1.CreateOptions{})
			return err
		}); err != nil {
			return err
		}
	}
	patch := fmt.Sprintf(`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":%q,"uid":%q}]}}`, name, uid)
	return until(ctx, apierrors.IsNotFound, func() error {
		_, err := client.CoordinationV1().Leases(namespace).Patch(ctx, "operator", types.MergePatchType, []byte(patch), metav1.PatchOptions{})
		return err
	})
}

// until repeats do while its error is one that passes.
func until(ctx context.Context, passes func(error) bool, do func() error) error {
	for {
		err := do()
		if !passes(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}
