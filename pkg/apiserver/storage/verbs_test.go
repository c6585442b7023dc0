package storage_test

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/apis/example"
	upstream "k8s.io/apiserver/pkg/storage"
)

// verbs are all requests about objects that f serves, each about key.
func verbs(f *fixture, key string) map[string]func(context.Context) error {
	everything := upstream.ListOptions{Recursive: true, Predicate: upstream.Everything}
	return map[string]func(context.Context) error{
		"create": func(ctx context.Context) error {
			return f.Create(ctx, key, pod("web"), &example.Pod{}, 0)
		},
		"get": func(ctx context.Context) error {
			return f.Get(ctx, key, upstream.GetOptions{}, &example.Pod{})
		},
		"update": func(ctx context.Context) error {
			return f.GuaranteedUpdate(ctx, key, &example.Pod{}, false, nil,
				upstream.SimpleUpdate(func(in runtime.Object) (runtime.Object, error) { return in, nil }), nil)
		},
		"delete": func(ctx context.Context) error {
			return f.Delete(ctx, key, &example.Pod{}, nil, upstream.ValidateAllObjectFunc, nil, upstream.DeleteOptions{})
		},
		"list": func(ctx context.Context) error {
			return f.GetList(ctx, key, everything, &example.PodList{})
		},
		"watch": func(ctx context.Context) error {
			w, err := f.Watch(ctx, key, everything)
			if err == nil {
				w.Stop()
			}
			return err
		},
	}
}
