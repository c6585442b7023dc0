package stamp

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/workload"
)

const (
	// MaxFormer is how many bytes the former content may have, compressed. All annotations
	// of an object have 256 KiB, and what was applied last is one, too.
	MaxFormer = 96 << 10
	// maxContent bounds what is unpacked; no object is larger.
	maxContent = 4 << 20
)

// ErrFormerTooLarge says that a change cannot be staged.
var ErrFormerTooLarge = fmt.Errorf("its present content has more than %d bytes, compressed, and cannot be kept for the physical clusters that get the change later", MaxFormer)

// RolloutOf has the waves of a placement; nil: all at once.
func RolloutOf(p *placementv1alpha1.Placement) *placementv1alpha1.DecidedRollout {
	if p == nil || p.Spec.Decision == nil {
		return nil
	}
	return p.Spec.Decision.Rollout
}

// Wave is the one in which a physical cluster gets changes, from 0. What is in none is left,
// or has just come: it is the last to get them.
func Wave(rollout *placementv1alpha1.DecidedRollout, physicalCluster string) int {
	for i, w := range rollout.Waves {
		if slices.Contains(w.PhysicalClusters, physicalCluster) {
			return i
		}
	}
	return max(0, len(rollout.Waves)-1)
}

// Content is what of an object is staged, sharing values with it: all but metadata, status
// and the number of replicas.
func Content(kind workload.Kind, obj map[string]any) map[string]any {
	out := map[string]any{}
	for name, value := range obj {
		switch name {
		case "apiVersion", "kind", "metadata", "status":
		default:
			out[name] = value
		}
	}
	if spec, ok := out["spec"].(map[string]any); ok && len(kind.Replicas) == 2 {
		spec = maps.Clone(spec)
		delete(spec, kind.Replicas[1])
		out["spec"] = spec
	}
	return out
}

// Staged reports whether a change of an object has not reached all of its waves.
func Staged(obj metav1.Object) bool { return Revision(obj) != "" }

// Revision is which change of an object is under way; empty: none.
func Revision(obj metav1.Object) string {
	return obj.GetAnnotations()[placementv1alpha1.RolloutAnnotation]
}

// Former are the targets that have the former content, sorted.
func Former(obj metav1.Object) []string {
	targets := TargetsOf(obj.GetAnnotations())
	return slices.DeleteFunc(targets.Names(), func(name string) bool { return !targets[name].Former })
}

// Stage writes on obj, which a user changes from old, who gets the change. before and after
// are their contents, see Content.
//
//	content   under way   is the former content   several waves   then
//	the same  any                                                 nothing
//	other     no                                  no              everywhere at once
//	other     no                                  yes             staged: old is the former content
//	other     yes         yes                     any             taken back: everywhere
//	other     yes         no                      yes             staged: the former content stays
//	other     yes         no                      no              everywhere at once
//
// Staged: the first wave that has a target gets it, unless a person has to approve that;
// all others have the former content, also those that had the change before.
func Stage(old, obj metav1.Object, before, after map[string]any, rollout *placementv1alpha1.DecidedRollout) error {
	if equality.Semantic.DeepEqual(before, after) {
		return nil
	}
	targets := TargetsOf(obj.GetAnnotations())
	first, several := firstWave(rollout, targets)
	former := before
	if Staged(old) {
		var err error
		if former, err = FormerContent(old); err != nil {
			former = before // nobody could apply it
		} else if equality.Semantic.DeepEqual(former, after) {
			several = false
		}
	}
	if !several {
		Complete(obj)
		return nil
	}
	packed, err := pack(former)
	if err != nil {
		return err
	}
	annotate(obj, placementv1alpha1.FormerAnnotation, packed)
	annotate(obj, placementv1alpha1.RolloutAnnotation, revision(old))
	for name, target := range targets {
		target.Former = (target.Keeps() || target.NoCopy()) && (Wave(rollout, name) != first || rollout.Waves[first].Approval == placementv1alpha1.ApprovalManual)
		targets[name] = target
	}
	Set(obj, targets)
	return nil
}

// firstWave is the first one that has a target; several says that others have some, too.
func firstWave(rollout *placementv1alpha1.DecidedRollout, targets placementv1alpha1.Targets) (first int, several bool) {
	if rollout == nil {
		return 0, false
	}
	first = -1
	for i, w := range rollout.Waves {
		if !slices.ContainsFunc(w.PhysicalClusters, func(name string) bool { return targets[name].Keeps() && hasEntry(targets, name) }) {
			continue
		}
		if first >= 0 {
			return first, true
		}
		first = i
	}
	return max(0, first), false
}

// revision names the change of an object by what was changed. It says nothing of the
// content: it is on Copies, which others may read than Secrets.
func revision(old metav1.Object) string {
	sum := sha256.Sum256([]byte(string(old.GetUID()) + "/" + old.GetResourceVersion()))
	return hex.EncodeToString(sum[:6])
}

// Open has targets get what is under way.
func Open(obj metav1.Object, names []string) {
	targets := TargetsOf(obj.GetAnnotations())
	for _, name := range names {
		if target, ok := targets[name]; ok {
			target.Former = false
			targets[name] = target
		}
	}
	Set(obj, targets)
}

// Complete ends what is under way: all targets have what the object says.
func Complete(obj metav1.Object) {
	if !Staged(obj) {
		return
	}
	Open(obj, TargetsOf(obj.GetAnnotations()).Names())
	annotate(obj, placementv1alpha1.FormerAnnotation, "")
	annotate(obj, placementv1alpha1.RolloutAnnotation, "")
}

// FormerContent is what the object had before, see Content.
func FormerContent(obj metav1.Object) (map[string]any, error) {
	packed := obj.GetAnnotations()[placementv1alpha1.FormerAnnotation]
	if packed == "" {
		return nil, errors.New("the object has no former content")
	}
	return unpack(packed)
}

// Received is a logical object as one of its targets is to have it: with the former
// content, if it has not got the present one yet.
func Received(kind workload.Kind, obj *unstructured.Unstructured, target string) (*unstructured.Unstructured, error) {
	targets := obj.GetAnnotations()[placementv1alpha1.TargetsAnnotation]
	if !strings.Contains(targets, `"former"`) { // mostly
		return obj, nil
	}
	if entry, ok := TargetsOf(map[string]string{placementv1alpha1.TargetsAnnotation: targets})[target]; !ok || !entry.Former {
		return obj, nil
	}
	return WithFormer(kind, obj)
}

// WithFormer is an object with its former content in the place of the present one. It has
// the replicas that it has now.
func WithFormer(kind workload.Kind, obj *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	former, err := FormerContent(obj)
	if err != nil {
		return nil, fmt.Errorf("reading the former content: %w", err)
	}
	for _, name := range []string{"apiVersion", "kind", "metadata", "status"} {
		delete(former, name)
		if value, ok := obj.Object[name]; ok {
			former[name] = value
		}
	}
	if len(kind.Replicas) > 0 {
		n, ok, err := unstructured.NestedInt64(obj.Object, kind.Replicas...)
		if err == nil && ok {
			err = unstructured.SetNestedField(former, n, kind.Replicas...)
		}
		if err != nil {
			return nil, fmt.Errorf("reading the former content: %w", err)
		}
	}
	return &unstructured.Unstructured{Object: former}, nil
}

// underWay gives wanted targets the former content where they have it. What comes while a
// change is under way begins with the former content, and waits as the others do.
func underWay(current, wanted placementv1alpha1.Targets) placementv1alpha1.Targets {
	some := false
	for _, target := range current {
		some = some || target.Former
	}
	if !some {
		return wanted
	}
	for name, target := range wanted {
		has, ok := current[name]
		target.Former = (target.Keeps() || target.NoCopy()) && (has.Former || !ok)
		wanted[name] = target
	}
	return wanted
}

// pack compresses content: the annotations of an object have a bound, and those of a Secret
// are shown by tools that do not show its data.
func pack(content map[string]any) (string, error) {
	raw, err := json.Marshal(content)
	if err != nil {
		return "", fmt.Errorf("writing the former content: %w", err)
	}
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write(raw); err != nil {
		return "", fmt.Errorf("writing the former content: %w", err)
	}
	if err := w.Close(); err != nil {
		return "", fmt.Errorf("writing the former content: %w", err)
	}
	out := base64.StdEncoding.EncodeToString(packed.Bytes())
	if len(out) > MaxFormer {
		return "", ErrFormerTooLarge
	}
	return out, nil
}

func unpack(packed string) (map[string]any, error) {
	raw, err := base64.StdEncoding.DecodeString(packed)
	if err != nil {
		return nil, errors.New("it is no base64")
	}
	r, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		return nil, errors.New("it is not compressed")
	}
	plain, err := io.ReadAll(io.LimitReader(r, maxContent+1))
	if err != nil || len(plain) > maxContent {
		return nil, errors.New("it cannot be unpacked")
	}
	var content map[string]any
	if err := utiljson.Unmarshal(plain, &content); err != nil || content == nil {
		return nil, errors.New("it is no JSON object")
	}
	return content, nil
}
