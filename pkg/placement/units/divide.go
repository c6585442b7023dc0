package units

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/workload"
)

// Object is an object of a namespace, of a kind that is placed or mirrored.
type Object struct {
	Kind workload.Kind
	*unstructured.Unstructured
}

// Division knows the objects of a namespace by what they are needed by.
type Division struct {
	selectors []Selector
	// runs are the objects that make pods, with the labels of these.
	runs []running
	// services, claims and all others by what leads to them.
	services map[string]Object
	owners   map[types.UID]Object
}

type running struct {
	Object
	unit string
	pods []labels.Set
}

// Divide takes note of the objects of a namespace.
func Divide(selectors []Selector, objects []Object) *Division {
	d := &Division{selectors: selectors, services: map[string]Object{}, owners: map[types.UID]Object{}}
	for _, o := range objects {
		d.owners[o.GetUID()] = o
		switch {
		case o.Kind.Role != workload.Placed || stamp.Mirrored(o):
		case !o.Kind.Follows():
			unit, _ := Selected(selectors, o.Kind, o)
			d.runs = append(d.runs, running{o, unit, workload.PodLabels(o.Kind, o.Object)})
		case o.Kind.Semantics == workload.ServiceSemantics:
			d.services[o.GetName()] = o
		}
	}
	return d
}

// Of are the units of an object, sorted; nil says all that the namespace has.
//
//	object                                     its units
//	mirrored, of an owner that is known        those of the owner
//	mirrored, else: a claim that is mounted    those of what mounts it
//	mirrored, else                             all
//	not placed: Namespace, rules, referenced   all
//	makes pods                                 that of the first policy that selects it, else namespace
//	follows, and something needs it            those of what needs it
//	follows, and nothing does                  as if it made pods
func (d *Division) Of(o Object) []string {
	if stamp.Mirrored(o) {
		return d.mirrored(o)
	}
	if o.Kind.Role != workload.Placed {
		return nil
	}
	if needed := d.needed(o); len(needed) > 0 {
		return needed
	}
	unit, _ := Selected(d.selectors, o.Kind, o)
	return []string{unit}
}

// maxOwners bounds the way from a pod to what a user made.
const maxOwners = 8

func (d *Division) mirrored(o Object) []string {
	if o.Kind.IsClaim() {
		return d.needed(o)
	}
	if made, ok := d.Origin(o); ok {
		return d.Of(made)
	}
	return nil
}

// Origin is the object of a user of which controllers below made a mirrored one.
func (d *Division) Origin(o Object) (_ Object, ok bool) {
	at := o
	for range maxOwners {
		ref := metav1.GetControllerOfNoCopy(at)
		if ref == nil && len(at.GetOwnerReferences()) > 0 {
			ref = &at.GetOwnerReferences()[0]
		}
		if ref == nil {
			return Object{}, false
		}
		owner, known := d.owners[ref.UID]
		if !known || !stamp.Mirrored(owner) {
			return owner, known
		}
		at = owner
	}
	return Object{}, false
}

// needed are the units of what needs an object that follows others; none if nothing does.
func (d *Division) needed(o Object) []string {
	if !o.Kind.Follows() {
		return nil
	}
	content := o.Object
	var out []string
	if selector := workload.Selector(o.Kind, content); selector != nil {
		out = d.where(func(r running) bool {
			return slices.ContainsFunc(r.pods, func(pods labels.Set) bool { return selector.Matches(pods) })
		})
	}
	if group, kind, name := workload.Scaled(o.Kind, content); name != "" {
		out = append(out, d.where(func(r running) bool {
			return r.Kind.Group == group && r.Kind.Kind == kind && r.GetName() == name
		})...)
	}
	for _, led := range workload.Led(o.Kind, content) {
		if service, ok := d.services[led.Name]; ok {
			out = append(out, d.Of(service)...)
		}
	}
	if o.Kind.IsClaim() {
		out = append(out, d.where(func(r running) bool { return workload.Claims(r.Kind, r.Object.Object, o.GetName()) })...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// where are the units of what runs and is wanted.
func (d *Division) where(wanted func(running) bool) []string {
	var out []string
	for _, r := range d.runs {
		if !slices.Contains(out, r.unit) && wanted(r) {
			out = append(out, r.unit)
		}
	}
	return out
}
