package simulation

import (
	"slices"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/atoll-dev/atoll/pkg/admission/protect"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/workload"
	"github.com/atoll-dev/atoll/test/simulation/kube"
)

const user = "user"

// makeLogicalClusters makes the namespaces that are there from the beginning.
func (w *World) makeLogicalClusters() {
	for _, cluster := range []logicalcluster.Name{"one", "two"} {
		for _, name := range []string{"web", "db"} {
			if _, err := w.api.Create(user, namespaces, in(cluster, newObject(namespaces, "", name))); err != nil {
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

// ask sends a request to the server, which may be down or go down.
func (w *World) ask(do func(pause func()) error) {
	if w.control == nil {
		return
	}
	w.timed++
	w.control.requests.add(request{w.timed, &do})
}

func (w *World) createObject(h Happening) {
	u := in(h.Cluster, example(h.Resource, h.Namespace, h.Name, h.N))
	w.ask(func(pause func()) error { return w.control.create(user, u, pause) })
}

// update is a patch of a user.
func (w *World) update(key kube.Key, change func(*unstructured.Unstructured)) {
	w.ask(func(pause func()) error {
		pause()
		old := cast(w.api.Find(key))
		if old == nil || isObserved(old) {
			return nil
		}
		u := old.DeepCopy()
		change(u)
		protect.Update(u, old)
		if err := w.control.stampOn(u, false, pause); err != nil {
			return err
		}
		_, err := w.api.Update(user, key.Resource, u)
		return err
	})
}

func (w *World) editObject(h Happening) {
	w.update(h.key(), func(u *unstructured.Unstructured) {
		if h.N%5 == 0 {
			annotations := u.GetAnnotations()
			annotations["example.com/note"] = string(rune('a' + h.N%3))
			u.SetAnnotations(annotations)
			return
		}
		if h.Resource == pods {
			_ = unstructured.SetNestedField(u.Object, []any{map[string]any{"name": "main", "image": "edited"}}, "spec", "containers") // a path of maps
			return
		}
		clusterIP, had, _ := unstructured.NestedString(u.Object, "spec", "clusterIP")
		vary(h.Resource, u, h.N)
		if had {
			_ = unstructured.SetNestedField(u.Object, clusterIP, "spec", "clusterIP") // a path of maps
		}
	})
}

// forge tries to write what only the system writes.
func (w *World) forge(h Happening) {
	w.update(h.key(), func(u *unstructured.Unstructured) {
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
	})
}

func (w *World) deleteObject(h Happening) { w.remove(h.key(), h.N) }

// remove deletes an object, in one of the ways there are.
func (w *World) remove(key kube.Key, n int) {
	propagation := []metav1.DeletionPropagation{
		metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan, "",
	}[n%4]
	w.ask(func(pause func()) error {
		if key.Resource == namespaces {
			w.control.leaving[key] = w.now.Add(30 * time.Second)
		}
		pause()
		return w.api.Delete(user, key, kube.DeleteOptions{Propagation: propagation})
	})
}

// replaceObject deletes an object and makes another one of the name as soon as
// the name is free.
func (w *World) replaceObject(h Happening) {
	if w.api.Find(h.key()) == nil {
		return
	}
	w.remove(h.key(), h.N)
	w.createSoon(h, 200)
}

func (w *World) createSoon(h Happening, tries int) {
	u := in(h.Cluster, example(h.Resource, h.Namespace, h.Name, h.N))
	w.after(30*time.Millisecond, func() {
		if w.api.Find(h.key()) == nil && w.control != nil {
			w.ask(func(pause func()) error {
				err := w.control.create(user, u, pause)
				if apierrors.IsAlreadyExists(err) && tries > 0 {
					w.createSoon(h, tries-1)
				}
				return err
			})
		} else if tries > 0 {
			w.createSoon(h, tries-1)
		}
	})
}

func (w *World) deleteNamespace(h Happening) { w.remove(h.namespace(), 3) }

// replaceNamespace makes the namespace anew once it is gone, with something in
// it.
func (w *World) replaceNamespace(h Happening) {
	w.remove(h.namespace(), 3)
	w.namespaceSoon(h, 400)
}

func (w *World) namespaceSoon(h Happening, tries int) {
	w.after(50*time.Millisecond, func() {
		switch {
		case w.control != nil && w.api.Find(h.namespace()) == nil:
			w.ask(func(pause func()) error {
				pause()
				_, err := w.api.Create(user, namespaces, in(h.Cluster, newObject(namespaces, "", h.Namespace)))
				return err
			})
			w.createSoon(h, 50)
		case tries > 0:
			w.namespaceSoon(h, tries-1)
		}
	})
}

// withdraw takes an object off one target, as the references controller does and
// moves will.
func (w *World) withdraw(h Happening) {
	w.entry(h, func(t placementv1alpha1.Targets) {
		if e, ok := t[h.Physical]; ok && e.State == placementv1alpha1.TargetSync {
			t[h.Physical] = placementv1alpha1.Target{State: placementv1alpha1.TargetStateRemoving}
		}
	})
}

// giveBack puts it back, once it is gone from there.
func (w *World) giveBack(h Happening) {
	w.entry(h, func(t placementv1alpha1.Targets) {
		namespace := w.api.Find(h.namespace())
		if _, ok := t[h.Physical]; !ok && slices.Contains(w.decisionOf(namespace), h.Physical) {
			t[h.Physical] = placementv1alpha1.Target{}
		}
	})
}

// split gives a Deployment its own number of replicas on a target.
func (w *World) split(h Happening) {
	h.Resource = deployments
	n := int32(h.N % 3)
	w.entry(h, func(t placementv1alpha1.Targets) {
		if e, ok := t[h.Physical]; ok && e.State == placementv1alpha1.TargetSync {
			t[h.Physical] = placementv1alpha1.Target{Replicas: &n}
		}
	})
}

func (w *World) decisionOf(namespace kube.Object) []string {
	if namespace == nil {
		return nil
	}
	p, ok := w.api.Find(placementOf(w.api.KeyOf(namespaces, namespace))).(*placementv1alpha1.Placement)
	if !ok || !belongsTo(p, namespace.GetUID()) {
		return nil
	}
	return decided(p)
}

// entry changes the targets of an object, as the system does. ConfigMaps have a
// controller of their own.
func (w *World) entry(h Happening, change func(placementv1alpha1.Targets)) {
	if h.Resource == configMaps {
		return
	}
	w.ask(func(pause func()) error {
		pause()
		obj := cast(w.api.Find(h.key()))
		if obj == nil || isObserved(obj) || obj.GetDeletionTimestamp() != nil || len(w.decisionOf(w.api.Find(h.namespace()))) == 0 {
			return nil
		}
		targets := targetsOf(obj)
		if targets == nil {
			targets = placementv1alpha1.Targets{}
		}
		change(targets)
		if targets.String() == targetsText(obj) || len(targets) == 0 {
			return nil
		}
		return w.control.retarget(changed(obj), targets)
	})
}

// deleteObserved deletes a pod or ReplicaSet that was mirrored.
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

// wait lets time pass, up to minutes. That is more than the caches of the server,
// which are in the process that they follow, are ever late.
func (w *World) wait(h Happening) {
	for range 1 + h.N%5 {
		if w.control != nil {
			w.control.catchUp()
		}
		w.pass(time.Duration(h.N*h.N*4) * time.Millisecond)
		for range 10 {
			w.advance()
		}
	}
}

// isPlaced says that a kind may have copies because of itself.
func isPlaced(key kube.Key) bool { return kindOf(key.Resource).Role == workload.Placed }
