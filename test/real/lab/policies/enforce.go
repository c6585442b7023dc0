package policies

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// Enforce has the rules of what is there applied, now and after each change, until ctx ends.
// Pods that nobody knows yet are restricted by nothing, as with most network plugins.
func Enforce(ctx context.Context, client kubernetes.Interface, apply func(rules string) error) error {
	factory := informers.NewSharedInformerFactory(client, 0)
	policies, namespaces, pods := factory.Networking().V1().NetworkPolicies(), factory.Core().V1().Namespaces(), factory.Core().V1().Pods()
	changed := make(chan struct{}, 1)
	notify := func(any) {
		select {
		case changed <- struct{}{}:
		default: // it is looked at already
		}
	}
	for _, informer := range []cache.SharedIndexInformer{policies.Informer(), namespaces.Informer(), pods.Informer()} {
		if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: notify, UpdateFunc: func(_, obj any) { notify(obj) }, DeleteFunc: notify,
		}); err != nil {
			return fmt.Errorf("watching what NetworkPolicies are about: %w", err)
		}
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	var applied string
	sync := func() error {
		var s State
		var errs [3]error
		s.Policies, errs[0] = policies.Lister().List(labels.Everything())
		s.Namespaces, errs[1] = namespaces.Lister().List(labels.Everything())
		s.Pods, errs[2] = pods.Lister().List(labels.Everything())
		if err := errors.Join(errs[:]...); err != nil {
			return err
		}
		rules, err := Rules(s)
		if err != nil || rules == applied {
			return err
		}
		if err := apply(rules); err != nil {
			return err
		}
		applied = rules
		return nil
	}
	if err := sync(); err != nil {
		return err
	}
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-changed:
			}
			if err := sync(); err != nil && ctx.Err() == nil {
				fmt.Fprintln(os.Stderr, "enforcing NetworkPolicies:", err)
				time.AfterFunc(time.Second, func() { notify(nil) })
			}
		}
	}()
	return nil
}
