package report

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/fleet/v1alpha1"
)

// Usage counts what names a physical cluster.
type Usage struct{ Placements, Copies int }

// Usages are those of all physical clusters by name; nil if they could not be read.
type Usages map[string]Usage

func (u Usages) cells(name string) (placements, copies string) {
	if u == nil {
		return unknown, unknown
	}
	return strconv.Itoa(u[name].Placements), strconv.Itoa(u[name].Copies)
}

// PhysicalClusters is a row for each physical cluster.
func PhysicalClusters(list []fleetv1alpha1.PhysicalCluster, usages Usages, now time.Time) *metav1.Table {
	t := newTable("Name", "Status", "Taints", "Placements", "Copies", "CPU", "Memory", "Age", "+Version", "+Syncer", "+Nodes", "+Connection", "+Labels", "+Message")
	for i := range list {
		c := &list[i]
		placements, copies := usages.cells(c.Name)
		_, message, wrong := notTrue(c.Status.Conditions, fleetv1alpha1.ConditionReady)
		if !wrong {
			_, message = notWatching(c)
		}
		add(t, c.Name, status(c), taints(c.Spec.Taints), placements, copies,
			share(c.Status, corev1.ResourceCPU), share(c.Status, corev1.ResourceMemory), age(c.CreationTimestamp, now),
			orUnknown(c.Status.Version), syncer(c.Status.Syncer), strconv.Itoa(int(c.Status.Nodes)), string(c.Spec.Connection.Type), labels(c.Labels), orNone(message))
	}
	return t
}

// status is in the words of kubectl get nodes, with the reason if it is not Ready.
func status(c *fleetv1alpha1.PhysicalCluster) string {
	words := []string{"Unknown"}
	if ready := apimeta.FindStatusCondition(c.Status.Conditions, fleetv1alpha1.ConditionReady); ready != nil {
		switch ready.Status {
		case metav1.ConditionTrue:
			words = []string{"Ready"}
			if reason, _ := notWatching(c); reason != "" {
				words = append(words, "NotSyncing", reason)
			}
		case metav1.ConditionFalse:
			words = []string{"NotReady", ready.Reason}
		default:
			words = []string{"Unknown", ready.Reason}
		}
	}
	if c.Spec.Unschedulable {
		words = append(words, "SchedulingDisabled")
	}
	if c.DeletionTimestamp != nil {
		words = append(words, "Terminating")
	}
	return strings.Join(words, ",")
}

// notWatching is why nothing, or not everything, is synced there; empty while a syncer starts.
func notWatching(c *fleetv1alpha1.PhysicalCluster) (reason, message string) {
	reason, message, _ = notTrue(c.Status.Conditions, fleetv1alpha1.ConditionSyncing)
	if reason != fleetv1alpha1.ReasonForbidden && reason != fleetv1alpha1.ReasonNotWatching {
		return "", ""
	}
	return reason, message
}

// syncer is the version that a syncer says to have.
func syncer(v *fleetv1alpha1.SyncerVersion) string {
	if v == nil {
		return unknown
	}
	return orUnknown(v.Version)
}

func taints(list []corev1.Taint) string {
	var out []string
	for i := range list {
		out = append(out, list[i].ToString())
	}
	return names(out)
}

func labels(all map[string]string) string {
	return orNone(metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: all}))
}

// share is what is requested of what there is. Both are reported together: nothing
// requested is zero, nothing there is not known.
func share(s fleetv1alpha1.PhysicalClusterStatus, name corev1.ResourceName) string {
	there, ok := s.Allocatable[name]
	if !ok {
		return unknown
	}
	requested := s.Requested[name]
	return fmt.Sprintf("%s/%s", requested.String(), there.String())
}

func orUnknown(s string) string {
	if s == "" {
		return unknown
	}
	return s
}
