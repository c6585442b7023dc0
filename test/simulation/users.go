package simulation

import (
	"context"
	"errors"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/scope"
	"github.com/atoll-dev/atoll/pkg/workload"
	"github.com/atoll-dev/atoll/test/simulation/kube"
)

const person = "user"

// makeLogicalClusters makes the namespaces that are there from the beginning.
func (w *World) makeNamespaces() {
	for _, cluster := range []logicalcluster.Name{"one", "two"} {
		for _, name := range []string{"web", "db"} {
			if _, err := w.api.Create(person, namespaces, in(cluster, newObject(namespaces, "", name))); err != nil {
				panic(err)
			}
		}
	}
}

func (h Happening) key() kube.Key {
	return kube.Key{Resource: h.Resource, Cluster: h.Cluster, Namespace: h.Namespace, Name: h.Name}
}

func (h Happening) namespace() kube.Key {
	return kube.Key{Resource: namespaces, Cluster: h.Cluster, Name: h.Namespace}
}

// attempts is how often a user asks who does not get an answer.
const attempts = 6

// ask sends requests of a user to the server, which may be down or go down.
func (w *World) ask(do func(ctx context.Context, c dynamic.Interface) error) { w.askOn(w.people, do) }

func (w *World) askOn(l *line, do func(ctx context.Context, c dynamic.Interface) error) {
	c := newClients(l, "").dynamic
	go func() {
		for try := range attempts {
			err := do(w.ctx, c)
			if err == nil {
				return
			}
			w.say("answer: %v", err)
			if !errors.Is(err, errUnreachable) || w.ctx.Err() != nil {
				return
			}
			time.Sleep(time.Duration(try+1) * 100 * time.Millisecond)
		}
	}()
}

// at is the client of a place, in a logical cluster.
func at(ctx context.Context, c dynamic.Interface, key kube.Key) (context.Context, dynamic.ResourceInterface) {
	client := c.Resource(versionOf(key.Resource))
	ctx = scope.WithCluster(ctx, key.Cluster)
	if key.Namespace == "" {
		return ctx, client
	}
	return ctx, client.Namespace(key.Namespace)
}

func (w *World) create(key kube.Key, u *unstructured.Unstructured, failed func(error)) {
	w.ask(func(ctx context.Context, c dynamic.Interface) error {
		ctx, client := at(ctx, c, key)
		_, err := client.Create(ctx, u, metav1.CreateOptions{})
		if err != nil && failed != nil {
			failed(err)
		}
		return err
	})
}

func (w *World) createObject(h Happening) {
	w.create(h.key(), example(h.Resource, h.Namespace, h.Name, h.N), nil)
}

// update reads, changes and writes an object.
func (w *World) update(l *line, key kube.Key, change func(*unstructured.Unstructured) bool) {
	w.askOn(l, func(ctx context.Context, c dynamic.Interface) error {
		ctx, client := at(ctx, c, key)
		u, err := client.Get(ctx, key.Name, metav1.GetOptions{})
		if err != nil || isObserved(u) || !change(u) {
			return err
		}
		_, err = client.Update(ctx, u, metav1.UpdateOptions{})
		return err
	})
}

func (w *World) editObject(h Happening) {
	w.update(w.people, h.key(), func(u *unstructured.Unstructured) bool {
		if h.N%5 == 0 {
			annotations := u.GetAnnotations()
			annotations["example.com/note"] = string(rune('a' + h.N%3))
			u.SetAnnotations(annotations)
			return true
		}
		if h.Resource == pods {
			_ = unstructured.SetNestedField(u.Object, []any{map[string]any{"name": "main", "image": "edited"}}, "spec", "containers") // a path of maps
			return true
		}
		clusterIP, had, _ := unstructured.NestedString(u.Object, "spec", "clusterIP")
		vary(h.Resource, u, h.N)
		if had {
			_ = unstructured.SetNestedField(u.Object, clusterIP, "spec", "clusterIP") // a path of maps
		}
		return true
	})
}

// forge tries to write what only the system writes.
func (w *World) forge(h Happening) {
	w.update(w.people, h.key(), func(u *unstructured.Unstructured) bool {
		switch h.N % 3 {
		case 0:
			u.SetFinalizers(nil)
		case 1:
			u.SetAnnotations(nil)
		case 2:
			u.SetAnnotations(map[string]string{
				placementv1alpha1.TargetsAnnotation: `{"` + h.Physical + `":{"state":"Removing"}}`,
			})
		}
		return true
	})
}

func (w *World) deleteObject(h Happening) { w.remove(h.key(), h.N) }

// remove deletes an object, in one of the ways there are.
func (w *World) remove(key kube.Key, n int) {
	propagation := []metav1.DeletionPropagation{
		metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan, "",
	}[n%4]
	w.ask(func(ctx context.Context, c dynamic.Interface) error {
		ctx, client := at(ctx, c, key)
		o := metav1.DeleteOptions{}
		if propagation != "" {
			o.PropagationPolicy = &propagation
		}
		return client.Delete(ctx, key.Name, o)
	})
}

// replaceObject deletes an object and makes another one of the name once
// the name is free.
func (w *World) replaceObject(h Happening) {
	if w.api.Find(h.key()) == nil {
		return
	}
	w.remove(h.key(), h.N)
	w.createLater(h, 200)
}

func (w *World) createLater(h Happening, tries int) {
	w.after(30*time.Millisecond, func() {
		if w.api.Find(h.key()) != nil {
			if tries > 0 {
				w.createLater(h, tries-1)
			}
			return
		}
		w.create(h.key(), example(h.Resource, h.Namespace, h.Name, h.N), nil)
	})
}

func (w *World) deleteNamespace(h Happening) { w.remove(h.namespace(), 3) }

// replaceNamespace makes the namespace anew once it is gone, with something in
// it.
func (w *World) replaceNamespace(h Happening) {
	w.remove(h.namespace(), 3)
	w.namespaceLater(h, 400)
}

func (w *World) namespaceLater(h Happening, tries int) {
	w.after(50*time.Millisecond, func() {
		switch {
		case w.api.Find(h.namespace()) == nil:
			w.create(h.namespace(), newObject(namespaces, "", h.Namespace), nil)
			w.createLater(h, 50)
		case tries > 0:
			w.namespaceLater(h, tries-1)
		}
	})
}

// deleteObserved deletes a pod or ReplicaSet that is a mirror.
func (w *World) deleteObserved(h Happening) {
	gr := []kube.Object{}
	for _, r := range observed {
		for _, obj := range w.api.ListNamespace(r, h.Cluster, h.Namespace) {
			if isObserved(obj) {
				gr = append(gr, obj)
			}
		}
	}
	if len(gr) > 0 {
		obj := gr[h.N%len(gr)]
		w.remove(w.api.KeyOf(resourceOf(cast(obj)), obj), 3)
	}
}

// pause lets time pass, up to minutes.
func (w *World) pause(h Happening) {
	until := w.now().Add(time.Duration(h.N*h.N*4) * time.Millisecond)
	for !w.isBroken() && w.now().Before(until) {
		w.advance(until.Sub(w.now()))
	}
}

// isPlaced says that a kind may have copies because of itself.
func isPlaced(key kube.Key) bool { return kindOf(key.Resource).Role == workload.Placed }

func decided(p *placementv1alpha1.Placement) []string {
	if p == nil || p.Spec.Decision == nil {
		return nil
	}
	var clusters []string
	for _, d := range p.Spec.Decision.PhysicalClusters {
		clusters = append(clusters, d.Name)
	}
	return clusters
}

func belongsTo(p *placementv1alpha1.Placement, namespace types.UID) bool {
	owner := metav1.GetControllerOfNoCopy(p)
	return owner == nil || owner.UID == namespace
}
