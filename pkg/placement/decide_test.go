package placement

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/kcp-dev/logicalcluster/v3"
	"golang.org/x/tools/txtar"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
)

// TestDecideTranscripts runs testdata/*.txtar: the sections clusters, policies, local,
// own, time and unit set the scene, each section want is what Decide then says, and verify what
// Verify says.
func TestDecideTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var scene scene
			for i, section := range archive.Files {
				var got string
				switch section.Name {
				case "want":
					got = describe(Decide(scene.snapshot(), scene.asked()))
				case "verify":
					v := Verify(scene.snapshot(), scene.asked())
					got = fmt.Sprintf("%v %s: %s\n", v.Satisfied, v.Reason, v.Message)
					if !v.Until.IsZero() {
						got += "until " + v.Until.UTC().Format(time.TimeOnly) + "\n"
					}
				default:
					scene.set(t, section)
					continue
				}
				if diff := cmp.Diff(string(section.Data), got); diff != "" {
					t.Errorf("section %d (-want +got):\n%s", i, diff)
				}
			}
		})
	}
}

// clusterYAML is a physical cluster in short.
type clusterYAML struct {
	Name            string              `json:"name"`
	Labels          map[string]string   `json:"labels"`
	Unschedulable   bool                `json:"unschedulable"`
	Deleting        bool                `json:"deleting"`
	Forget          bool                `json:"forget"`
	Drain           fleetv1alpha1.Drain `json:"drain"`
	Ready           *string             `json:"ready"`
	Reason          string              `json:"reason"`
	Since           metav1.Time         `json:"since"`
	Syncing         string              `json:"syncing"`
	Taints          []corev1.Taint      `json:"taints"`
	APIs            []string            `json:"apis"`
	StorageClasses  []string            `json:"storageClasses"`
	DefaultClass    string              `json:"defaultClass"`
	RuntimeHandlers *[]string           `json:"runtimeHandlers"`
	IngressClasses  *[]string           `json:"ingressClasses"`
	PriorityClasses *[]string           `json:"priorityClasses"`
	Bounds          corev1.ResourceList `json:"bounds"`
	CPU             *resource.Quantity  `json:"cpu"`
	Memory          *resource.Quantity  `json:"memory"`
	UsedCPU         resource.Quantity   `json:"usedCPU"`
	UsedMemory      resource.Quantity   `json:"usedMemory"`
	Assumed         corev1.ResourceList `json:"assumed"`
	LetIn           corev1.ResourceList `json:"letIn"`
	PlacementsCount int                 `json:"placements"`
}

func (y clusterYAML) cluster() PhysicalCluster {
	c := &fleetv1alpha1.PhysicalCluster{ObjectMeta: metav1.ObjectMeta{Name: y.Name, Labels: y.Labels}}
	if y.Deleting {
		c.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	}
	c.Spec = fleetv1alpha1.PhysicalClusterSpec{Unschedulable: y.Unschedulable, Forget: y.Forget, Drain: y.Drain, Taints: y.Taints, Bounds: y.Bounds}
	status := "True"
	if y.Ready != nil {
		status = *y.Ready
	}
	if status != "" {
		c.Status.Conditions = []metav1.Condition{{Type: fleetv1alpha1.ConditionReady, Status: metav1.ConditionStatus(status), Reason: y.Reason, LastTransitionTime: y.Since}}
	}
	if y.Syncing != "" {
		c.Status.Conditions = append(c.Status.Conditions, metav1.Condition{
			Type: fleetv1alpha1.ConditionSyncing, Status: metav1.ConditionStatus(y.Syncing), Reason: "Starting", LastTransitionTime: y.Since,
		})
	}
	c.Status.APIs, c.Status.StorageClasses, c.Status.DefaultStorageClass = y.APIs, y.StorageClasses, y.DefaultClass
	for _, l := range []struct {
		to   **fleetv1alpha1.ReportedNames
		from *[]string
	}{{&c.Status.RuntimeHandlers, y.RuntimeHandlers}, {&c.Status.IngressClasses, y.IngressClasses}, {&c.Status.PriorityClasses, y.PriorityClasses}} {
		if l.from != nil {
			*l.to = &fleetv1alpha1.ReportedNames{Names: *l.from}
		}
	}
	if y.CPU != nil && y.Memory != nil {
		c.Status.Allocatable = corev1.ResourceList{corev1.ResourceCPU: *y.CPU, corev1.ResourceMemory: *y.Memory}
	}
	c.Status.Requested = corev1.ResourceList{corev1.ResourceCPU: y.UsedCPU, corev1.ResourceMemory: y.UsedMemory}
	return PhysicalCluster{PhysicalCluster: c, Assumed: y.Assumed, LetIn: y.LetIn, Placements: y.PlacementsCount}
}

type unitYAML struct {
	LogicalCluster       string              `json:"logicalCluster"` // default shop
	LogicalClusterLabels map[string]string   `json:"logicalClusterLabels"`
	NamespaceLabels      map[string]string   `json:"namespaceLabels"`
	Pin                  string              `json:"pin"`
	Decided              []string            `json:"decided"`
	Bound                []string            `json:"bound"`
	BoundBy              string              `json:"boundBy"`
	Requests             corev1.ResourceList `json:"requests"`
	APIs                 []string            `json:"apis"`
	StorageClasses       []string            `json:"storageClasses"`
	RuntimeHandlers      []string            `json:"runtimeHandlers"`
	IngressClasses       []string            `json:"ingressClasses"`
	// PriorityClasses are as those of a Unit.
	PriorityClasses map[string]map[string][]string `json:"priorityClasses"`
	Others          []otherYAML                    `json:"others"`
}

// otherYAML is a namespace beside the unit.
type otherYAML struct {
	Labels map[string]string `json:"labels"`
	Places []string          `json:"places"`
}

// timeYAML is when a unit is decided, and since when silence counts.
type timeYAML struct {
	Now     metav1.Time `json:"now"`
	Watched metav1.Time `json:"watched"`
}

type scene struct {
	time     timeYAML
	clusters []clusterYAML
	// policies are those of "root", local those of the logical cluster, own those of
	// the namespace.
	policies, local []placementv1alpha1.ClusterPlacementPolicy
	own             []placementv1alpha1.PlacementPolicy
	unit            unitYAML
}

func (s *scene) set(t *testing.T, section txtar.File) {
	t.Helper()
	var into any
	switch section.Name {
	case "clusters":
		s.clusters = nil
		into = &s.clusters
	case "policies":
		s.policies = nil
		into = &s.policies
	case "local":
		s.local = nil
		into = &s.local
	case "own":
		s.own = nil
		into = &s.own
	case "time":
		s.time = timeYAML{}
		into = &s.time
	case "unit":
		s.unit = unitYAML{}
		into = &s.unit
	default:
		t.Fatalf("unknown section %q", section.Name)
	}
	if err := yaml.UnmarshalStrict(section.Data, into); err != nil {
		t.Fatalf("section %s: %v", section.Name, err)
	}
}

func (s *scene) snapshot() Snapshot {
	snapshot := Snapshot{Now: s.time.Now.Time, Watched: s.time.Watched.Time}
	var all []*fleetv1alpha1.PhysicalCluster
	for _, c := range s.clusters {
		snapshot.PhysicalClusters = append(snapshot.PhysicalClusters, c.cluster())
		all = append(all, c.cluster().PhysicalCluster)
	}
	snapshot.CutOff = CutOff(all)
	for i := range s.policies {
		snapshot.Policies = append(snapshot.Policies, Global(&s.policies[i]))
	}
	for i := range s.local {
		snapshot.Policies = append(snapshot.Policies, Local(&s.local[i]))
	}
	for i := range s.own {
		snapshot.Policies = append(snapshot.Policies, InNamespace(&s.own[i]))
	}
	return snapshot
}

func (s *scene) asked() Unit {
	u := Unit{
		LogicalCluster: "shop", LogicalClusterLabels: s.unit.LogicalClusterLabels,
		Namespace: "web", NamespaceLabels: s.unit.NamespaceLabels,
		Pin: s.unit.Pin, Decided: s.unit.Decided, Bound: s.unit.Bound, BoundBy: s.unit.BoundBy,
		Needs: Needs{
			Requests: s.unit.Requests, APIs: s.unit.APIs, StorageClasses: s.unit.StorageClasses, RuntimeHandlers: s.unit.RuntimeHandlers,
			IngressClasses: s.unit.IngressClasses,
		},
		PriorityClasses: s.unit.PriorityClasses,
	}
	if s.unit.LogicalCluster != "" {
		u.LogicalCluster = logicalcluster.Name(s.unit.LogicalCluster)
	}
	for _, o := range s.unit.Others {
		u.Others = append(u.Others, Other{Labels: o.Labels, PhysicalClusters: o.Places})
	}
	return u
}

func describe(d Decision) string {
	var b strings.Builder
	fmt.Fprintln(&b, d.Message())
	if !d.Until.IsZero() {
		fmt.Fprintln(&b, "until", d.Until.UTC().Format(time.TimeOnly))
	}
	if d.Refuse {
		fmt.Fprintln(&b, "refused")
	}
	for _, r := range d.Rejected {
		fmt.Fprintf(&b, "%s: %s: %s\n", r.PhysicalCluster, r.Reason, r.Message())
	}
	if len(d.Policies) > 0 {
		fmt.Fprint(&b, "heard:")
		for _, p := range d.Policies {
			fmt.Fprintf(&b, " %s@%d", p.Name, p.Generation)
		}
		fmt.Fprintln(&b)
	}
	return b.String()
}
