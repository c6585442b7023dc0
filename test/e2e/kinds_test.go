package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/test/framework/process"
)

// definition is a CustomResourceDefinition of a group of one test, KIND with the plural
// PLURAL.
const definition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.GROUP}
spec:
  group: GROUP
  scope: Namespaced
  names: {kind: Widget, plural: widgets, singular: widget, listKind: WidgetList}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              size: {type: integer}
              replicas: {type: integer}
              template: {type: object, x-kubernetes-preserve-unknown-fields: true}
          status:
            type: object
            properties:
              observedGeneration: {type: integer}
              ready: {type: integer}
              phase: {type: string}
              conditions: {type: array, items: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

const declaration = `
apiVersion: fleet.atoll.dev/v1alpha1
kind: PlacedKind
metadata: {name: widgets.GROUP}
spec:
  version: v1
  kind: Widget
  logicalClusters: {matchLabels: {kinds: GROUP}}
`

const widget = `
apiVersion: GROUP/v1
kind: Widget
metadata: {name: NAME}
spec: {size: 1}
`

// of puts the group of a test into a manifest.
func of(group, manifest string) string { return strings.ReplaceAll(manifest, "GROUP", group) }

func widgetOf(group, name string) string {
	return strings.ReplaceAll(of(group, widget), "NAME", name)
}

// custom reads an object of a custom kind.
func custom(k process.Kubectl, resource, name string) (*unstructured.Unstructured, error) {
	obj := &unstructured.Unstructured{}
	ok, err := k.Get(context.Background(), obj, resource, name)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, nil
	}
	return obj, nil
}

// textOf is a field of an object of a custom kind as text, empty if it is not there.
func textOf(obj *unstructured.Unstructured, fields ...string) string {
	if obj == nil {
		return ""
	}
	value, found, err := unstructured.NestedFieldNoCopy(obj.Object, fields...)
	if err != nil || !found {
		return ""
	}
	return fmt.Sprint(value)
}

// selectCluster labels a logical cluster for the declarations of a group.
func selectCluster(t *testing.T, k process.Kubectl, group string) {
	t.Helper()
	name := strings.TrimSpace(must(t)(k.Run(context.Background(), "get", "namespace", "default", "-o", `jsonpath={.metadata.annotations.kcp\.io/cluster}`)))
	must(t)(theLab.root.Run(context.Background(), "label", "logicalcluster", name, "kinds="+group))
}

// readKind reads a custom kind before its definition is deleted, if it is defined. A kube-apiserver that has
// never read it fails to look for what is left of it, and may look again five minutes later only: a change of
// the condition Terminating, which is all that there is then, does not have its finalizer look.
func readKind(t *testing.T, k process.Kubectl, resource string) {
	t.Helper()
	if err := isThere(k, &apiextensionsv1.CustomResourceDefinition{}, "crd", resource); err == nil {
		must(t)(k.Run(context.Background(), "get", resource, "-A"))
	}
}

// define defines the kind for as long as the test runs.
func define(t *testing.T, k process.Kubectl, group string) {
	t.Helper()
	must(t)(k.Apply(context.Background(), of(group, definition)))
	must(t)(k.Run(context.Background(), "wait", "--for=condition=Established", "--timeout=1m", "crd/widgets."+group))
	t.Cleanup(func() {
		if !t.Failed() {
			readKind(t, k, "widgets."+group)
			must(t)(k.Run(context.Background(), "delete", "crd", "widgets."+group, "--ignore-not-found", "--timeout=2m"))
		}
	})
}

func TestADeclaredKindIsPlacedAndHandledUntilItsDeclarationIsNotNeeded(t *testing.T) {
	t.Parallel()
	ctx, group := context.Background(), "placed.e2e.example.com"
	resource := "widgets." + group
	k := theLab.newCluster(t)
	define(t, theLab.east.Kubectl, group)
	must(t)(k.Apply(ctx, of(group, definition)))
	must(t)(k.Run(ctx, "wait", "--for=condition=Established", "--timeout=1m", "crd/"+resource))
	must(t)(k.Run(ctx, "create", "namespace", "web"))
	web := k.In("web")
	must(t)(web.Apply(ctx, widgetOf(group, "early")))
	if early, err := custom(web, resource, "early"); err != nil || stamp.HasTargets(early) {
		t.Fatalf("what is not declared is placed: %v, %v", early, err)
	}

	selectCluster(t, k, group)
	must(t)(theLab.root.Apply(ctx, of(group, declaration)))
	eventually(t, func() error { // west does not serve it
		early, err := custom(web, resource, "early")
		if err != nil {
			return err
		}
		return want("targets of what was there before", strings.Join(stamp.TargetsOf(early.GetAnnotations()).Names(), ","), "east")
	})
	must(t)(web.Apply(ctx, widgetOf(group, "late")))
	late, err := custom(web, resource, "late")
	if err != nil || strings.Join(stamp.TargetsOf(late.GetAnnotations()).Names(), ",") != "east" {
		t.Fatalf("what is made is not placed at once: %v, %v", late, err)
	}
	below := theLab.east.In(physicalNamespace(t, k, "web"))
	for _, name := range []string{"early", "late"} {
		eventually(t, func() error { return sizeIs(below, resource, name, "1") })
	}

	must(t)(below.Run(ctx, "patch", resource, "late", "--subresource=status", "--type=merge", "-p", `{"status":{"ready":1,"phase":"Well","observedGeneration":1}}`))
	eventually(t, func() error {
		obj, err := custom(web, resource, "late")
		return errors.Join(err, want("status above", textOf(obj, "status", "phase")+" "+textOf(obj, "status", "ready"), "Well 1"))
	})
	must(t)(theLab.root.Run(ctx, "patch", "placedkind", resource, "--type=merge", "-p",
		`{"spec":{"status":{"rule":"{\"phase\": copies[0].status.phase + \" on \" + copies[0].physicalCluster}"}}}`))
	eventually(t, func() error { // a declaration that changes is followed
		obj, err := custom(web, resource, "late")
		return errors.Join(err, want("status above", textOf(obj, "status", "phase")+" "+textOf(obj, "status", "ready"), "Well on east 1"))
	})
	must(t)(web.Run(ctx, "patch", resource, "late", "--type=merge", "-p", `{"spec":{"size":2}}`))
	eventually(t, func() error { return sizeIs(below, resource, "late", "2") })
	must(t)(below.Run(ctx, "patch", resource, "late", "--type=merge", "-p", `{"spec":{"size":9}}`))
	eventually(t, func() error { return sizeIs(below, resource, "late", "2") })

	// The declaration stays for as long as it is needed, and takes nothing new.
	must(t)(theLab.root.Run(ctx, "delete", "placedkind", resource, "--wait=false"))
	must(t)(web.Apply(ctx, widgetOf(group, "after")))
	if after, err := custom(web, resource, "after"); err != nil || stamp.HasTargets(after) {
		t.Fatalf("a kind on its way out takes something new: %v, %v", after, err)
	}
	must(t)(web.Run(ctx, "patch", resource, "late", "--type=merge", "-p", `{"spec":{"size":3}}`))
	eventually(t, func() error { return sizeIs(below, resource, "late", "3") })
	must(t)(web.Run(ctx, "delete", resource, "late", "--timeout=1m"))
	if obj, err := custom(below, resource, "late"); err != nil || obj != nil {
		t.Fatalf("it is gone above, and not below: %v, %v", obj, err)
	}
	consistently(t, 3*time.Second, func() error {
		declared, err := custom(theLab.root, "placedkind", resource)
		if declared == nil {
			return errors.Join(err, errors.New("the declaration is gone before the last object"))
		}
		return err
	})
	must(t)(web.Run(ctx, "delete", resource, "early", "--timeout=1m"))
	must(t)(theLab.root.Run(ctx, "wait", "--for=delete", "placedkind/"+resource, "--timeout=1m"))
}

func sizeIs(k process.Kubectl, resource, name, size string) error {
	obj, err := custom(k, resource, name)
	return errors.Join(err, want("size of "+name, textOf(obj, "spec", "size"), size))
}

// machine has a pod template that refers to a ConfigMap and a Secret.
const machine = `
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {color: blue}
---
apiVersion: GROUP/v1
kind: Widget
metadata: {name: NAME}
spec:
  replicas: 1
  template:
    metadata: {labels: {app: NAME}}
    spec: {containers: [{name: c, image: nginx, envFrom: [{configMapRef: {name: settings}}]}]}
`

// madeBelow is a pod as an operator of the physical cluster makes it of the template.
const madeBelow = `
apiVersion: v1
kind: Pod
metadata:
  name: machine-0
  labels: {app: machine, atoll.dev/managed-by: MANAGER}
  ownerReferences: [{apiVersion: GROUP/v1, kind: Widget, name: machine, uid: UID, controller: true}]
spec: {containers: [{name: c, image: nginx}]}
`

func TestThePodTemplateOfADeclaredKindIsThatOfADeployment(t *testing.T) {
	t.Parallel()
	ctx, group := context.Background(), "templates.e2e.example.com"
	resource := "widgets." + group
	k := theLab.newCluster(t)
	define(t, theLab.west.Kubectl, group)
	must(t)(k.Apply(ctx, of(group, definition)))
	must(t)(k.Run(ctx, "wait", "--for=condition=Established", "--timeout=1m", "crd/"+resource))
	selectCluster(t, k, group)
	must(t)(theLab.root.Apply(ctx, of(group, declaration)+"  podTemplates: [spec.template]\n  replicas: spec.replicas\n"))
	t.Cleanup(func() {
		if !t.Failed() {
			must(t)(theLab.root.Run(ctx, "delete", "placedkind", resource, "--timeout=2m"))
		}
	})
	must(t)(theLab.root.Run(ctx, "wait", "--for=condition=Suitable", "--timeout=1m", "placedkind/"+resource))
	must(t)(k.Run(ctx, "create", "namespace", "web"))
	web := k.In("web")
	must(t)(web.Apply(ctx, strings.ReplaceAll(of(group, machine), "NAME", "machine")))
	below := theLab.west.In(physicalNamespace(t, k, "web"))
	var copied *unstructured.Unstructured
	eventually(t, func() (err error) {
		if copied, err = custom(below, resource, "machine"); err == nil && copied == nil {
			err = errors.New("it is not below")
		}
		return err
	})
	manager := textOf(copied, "spec", "template", "metadata", "labels", "atoll.dev/managed-by")
	if manager == "" {
		t.Fatalf("the template is not that of this control plane: %v", copied.Object["spec"])
	}
	eventually(t, func() error { // what it refers to goes along
		settings, err := custom(below, "configmap", "settings")
		return errors.Join(err, want("settings below", textOf(settings, "data", "color"), "blue"))
	})

	// What the operator makes of it is mirrored, with its owner.
	pod := strings.ReplaceAll(strings.ReplaceAll(of(group, madeBelow), "MANAGER", manager), "UID", string(copied.GetUID()))
	must(t)(below.Apply(ctx, pod))
	above, err := custom(web, resource, "machine")
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		mirrored, err := custom(web, "pod", "machine-0")
		if err != nil || mirrored == nil {
			return errors.Join(err, errors.New("the pod is not mirrored"))
		}
		for _, owner := range mirrored.GetOwnerReferences() {
			if owner.UID == above.GetUID() {
				return nil
			}
		}
		return fmt.Errorf("its owners are %v", mirrored.GetOwnerReferences())
	})

	// A hostile template is refused, as that of a Deployment is.
	hostile := strings.ReplaceAll(strings.ReplaceAll(of(group, machine), "NAME", "hostile"), "image: nginx,", "image: nginx, securityContext: {privileged: true},")
	if _, err := web.Apply(ctx, hostile); err == nil || !strings.Contains(err.Error(), "privileged") {
		t.Errorf("a privileged template: got %v, want it refused", err)
	}

	// What the definition below does not know is said, and not dropped.
	must(t)(k.Run(ctx, "patch", "crd", resource, "--type=json", "-p",
		`[{"op":"add","path":"/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/color","value":{"type":"string"}}]`))
	eventually(t, func() error {
		_, err := web.Run(ctx, "patch", resource, "machine", "--type=merge", "-p", `{"spec":{"color":"red"}}`)
		if err != nil {
			return err
		}
		copies := must(t)(web.Run(ctx, "get", "copies", "-o", `jsonpath={range .items[*]}{.spec.object.name} {.status.reason} {.status.message}{"\n"}{end}`))
		if !strings.Contains(copies, "machine SchemaDiffers") || !strings.Contains(copies, "spec.color") {
			return fmt.Errorf("the Copies say:\n%s", copies)
		}
		return nil
	})
	must(t)(web.Run(ctx, "delete", resource, "machine", "--timeout=1m"))
}
