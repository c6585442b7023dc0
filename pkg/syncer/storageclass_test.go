package syncer

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/atoll-dev/atoll/pkg/boundary"
	"github.com/atoll-dev/atoll/pkg/workload"
)

const classed = `
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db, namespace: web, uid: u, annotations: {placement.atoll.dev/targets: '{"east":{}}'}}
spec:
  selector: {matchLabels: {app: db}}
  template: {metadata: {labels: {app: db}}, spec: {containers: [{name: c, image: i}]}}
  volumeClaimTemplates:
    - metadata: {name: data, annotations: {team: shop, atoll.dev/storage-class: forged}}
      spec: {storageClassName: fast}
    - metadata: {name: log, annotations: {atoll.dev/storage-class: forged}}
      spec: {storageClassName: slow}
    - metadata: {name: rest}
      spec: {accessModes: [ReadWriteOnce]}
`

// classesOf are what the templates of claims have for a class, and note of it.
func classesOf(kind workload.Kind, obj *unstructured.Unstructured) [][2]string {
	var all [][2]string
	for _, claim := range workload.VolumeClaims(kind, obj.Object) {
		all = append(all, [2]string{workload.ClassOfClaim(claim), text(field(field(claim, "metadata"), "annotations"), storageClassAnnotation)})
	}
	return all
}

func TestAClaimHasTheClassThatItsOwnIsMappedToAndKeepsIt(t *testing.T) {
	logical := parse(t, classed)
	kind := kindOf(t, logical)
	transform := func(permits boundary.Permits) *unstructured.Unstructured {
		out, _ := Transform(logical, Placing{Ref: Ref{Kind: kind, Cluster: "shop", Namespace: "web", Name: "db"}, ControlPlane: "cp", Namespace: "shop-web-1", Permits: permits})
		return out
	}
	names := func(of map[string]string) boundary.Permits { return boundary.Permits{StorageClassNames: of} }
	plain, mapped := [][2]string{{"fast", ""}, {"slow", ""}, {"", ""}}, [][2]string{{"gp3", "fast"}, {"slow", ""}, {"", ""}}
	for name, c := range map[string]struct {
		made, now map[string]string
		want      [][2]string
	}{
		"no names":                       {nil, nil, plain},
		"a name":                         {map[string]string{"fast": "gp3"}, map[string]string{"fast": "gp3"}, mapped},
		"a name that came later":         {nil, map[string]string{"fast": "gp3", "*": "other"}, plain},
		"a name that is no more":         {map[string]string{"fast": "gp3"}, nil, mapped},
		"a name that is another now":     {map[string]string{"fast": "gp3"}, map[string]string{"fast": "premium"}, mapped},
		"two that were one class, apart": {map[string]string{"*": "gp3"}, map[string]string{"fast": "a", "slow": "b"}, [][2]string{{"gp3", "fast"}, {"gp3", "slow"}, {"", ""}}},
	} {
		made := transform(names(c.made))
		if diff := cmp.Diff(c.want, classesOf(kind, made)); diff != "" {
			t.Errorf("%s, as it is made (-want +got):\n%s", name, diff)
		}
		again := transform(keepStorageClasses(names(c.now), kind, logical, made))
		if diff := cmp.Diff(made.Object, again.Object); diff != "" {
			t.Errorf("%s, afterwards it would be another (-want +got):\n%s", name, diff)
		}
	}
	below := transform(names(nil))
	if annotations := field(field(workload.VolumeClaims(kind, below.Object)[0], "metadata"), "annotations"); annotations["team"] != "shop" {
		t.Errorf("annotations %v", annotations)
	}
}

// A Job is made anew if its template changes, and would begin once more.
func TestAJobKeepsTheClassesOfItsVolumes(t *testing.T) {
	for kind, kept := range map[string]bool{"batch/v1/Job": true, "apps/v1/Deployment": false} {
		at := strings.LastIndex(kind, "/")
		logical := parse(t, `
apiVersion: `+kind[:at]+`
kind: `+kind[at+1:]+`
metadata: {name: work, namespace: web, uid: u, annotations: {placement.atoll.dev/targets: '{"east":{}}'}}
spec:
  template:
    spec:
      containers: [{name: c, image: i}]
      volumes: [{name: scratch, ephemeral: {volumeClaimTemplate: {spec: {storageClassName: fast}}}}, {name: rest, ephemeral: {volumeClaimTemplate: {spec: {}}}}]
`)
		ref := Ref{Kind: kindOf(t, logical), Cluster: "shop", Namespace: "web", Name: "work"}
		transform := func(permits boundary.Permits) *unstructured.Unstructured {
			out, _ := Transform(logical, Placing{Ref: ref, ControlPlane: "cp", Namespace: "shop-web-1", Permits: permits})
			return out
		}
		made := transform(boundary.Permits{StorageClassNames: map[string]string{"fast": "gp3"}})
		if class := workload.ClassOfClaim(claimsOfPods(ref.Kind, made)["scratch"]); class != "gp3" {
			t.Fatalf("%s: class %s", kind, class)
		}
		again := transform(keepStorageClasses(boundary.Permits{StorageClassNames: map[string]string{"*": "premium"}}, ref.Kind, logical, made))
		if same := cmp.Equal(made.Object, again.Object); same != kept {
			t.Errorf("%s: it keeps them: %v", kind, same)
		}
	}
}

// What a StatefulSet makes of it is shown with the class that its user wrote, which the physical cluster
// need not have.
func TestAClaimThatWasMadeOnAPhysicalClusterNamesTheClassOfItsUser(t *testing.T) {
	for annotation, want := range map[string]string{"{atoll.dev/storage-class: fast}": "fast", "{}": "gp3"} {
		s := observationOf(t, `
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data-db-0, namespace: shop-web-1, uid: p1, annotations: `+annotation+`}
spec: {storageClassName: gp3, volumeName: v}
`, "")
		r := only(Observe(s))
		if r.Verb != CreateUp {
			t.Fatalf("%s", r.Verb)
		}
		if got := workload.ClassOfClaim(r.Object.Object); got != want || len(r.Object.GetAnnotations()) != 1 {
			t.Errorf("%s: class %s, want %s; annotations %v", annotation, got, want, r.Object.GetAnnotations())
		}
	}
}

// Volumes go by the class that claims name: each physical cluster has its own for it.
func TestAVolumeIsHandedOverByTheClassThatItsClaimNames(t *testing.T) {
	w := &place{t: t, entry: handedOver, other: `{"state":"Draining"}`, names: map[string]string{"disks": "premium"}}
	w.run()
	if there := workload.ClassOfClaim(w.claim.Object); there != "premium" || w.pv.Spec.StorageClassName != there {
		t.Errorf("the claim has the class %s, its volume %s", there, w.pv.Spec.StorageClassName)
	}
	if s := w.copy.Status.Volume.Source; s == nil || s.StorageClass != "disks" {
		t.Errorf("the copy says %+v", w.copy.Status.Volume)
	}
}
