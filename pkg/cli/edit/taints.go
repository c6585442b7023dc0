package edit

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Taints is a change of the taints of a physical cluster.
type Taints struct {
	// Add are put on; Remove are taken off, those without an effect with all effects.
	Add, Remove []corev1.Taint
	// Overwrite lets one that is put on change the value of one that is there.
	Overwrite bool
}

// SplitTaints tells names from taints in the arguments of a command: the names come
// first.
func SplitTaints(args []string) (names, taints []string) {
	first := slices.IndexFunc(args, func(arg string) bool {
		return strings.ContainsAny(arg, "=:") || strings.HasSuffix(arg, "-")
	})
	if first < 0 {
		return args, nil
	}
	return args[:first], args[first:]
}

// ParseTaints reads key=value:Effect and key:Effect, which put a taint on, and
// key:Effect- and key-, which take it off.
func ParseTaints(args []string) (Taints, error) {
	var out Taints
	for _, arg := range args {
		spec, remove := strings.CutSuffix(arg, "-")
		taint, err := parseTaint(spec)
		switch {
		case err != nil:
			return out, fmt.Errorf("taint %q: %w", arg, err)
		case remove:
			out.Remove = append(out.Remove, corev1.Taint{Key: taint.Key, Effect: taint.Effect})
		case taint.Effect == "":
			return out, fmt.Errorf("taint %q: an effect is needed, as in %s:NoSchedule", arg, spec)
		case slices.ContainsFunc(out.Add, func(t corev1.Taint) bool { return t.MatchTaint(&taint) }):
			return out, fmt.Errorf("taint %q: there are two of this key and effect", arg)
		default:
			out.Add = append(out.Add, taint)
		}
	}
	for _, taint := range out.Add {
		if slices.ContainsFunc(out.Remove, func(t corev1.Taint) bool { return matches(t, taint) }) {
			return out, fmt.Errorf("taint %q is put on and taken off: name it once", taint.ToString())
		}
	}
	return out, nil
}

var effects = []corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute}

func parseTaint(spec string) (corev1.Taint, error) {
	left, effect, hasEffect := strings.Cut(spec, ":")
	key, value, hasValue := strings.Cut(left, "=")
	taint := corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffect(effect)}
	switch {
	case hasEffect && !slices.Contains(effects, taint.Effect):
		return taint, fmt.Errorf("%q is no effect: it is one of NoSchedule, PreferNoSchedule, NoExecute", effect)
	case hasValue && !hasEffect:
		return taint, fmt.Errorf("an effect is needed, as in %s:NoSchedule", left)
	}
	if problems := validation.IsQualifiedName(key); len(problems) > 0 {
		return taint, fmt.Errorf("key %q: %s", key, problems[0])
	}
	if problems := validation.IsValidLabelValue(value); len(problems) > 0 {
		return taint, fmt.Errorf("value %q: %s", value, problems[0])
	}
	return taint, nil
}

// matches says that one of Remove means a taint.
func matches(remove, taint corev1.Taint) bool {
	return remove.Key == taint.Key && (remove.Effect == "" || remove.Effect == taint.Effect)
}

// Apply returns the taints after the change: those that were there keep their order.
func (c Taints) Apply(old []corev1.Taint) ([]corev1.Taint, error) {
	var errs []error
	out := slices.Clone(old)
	for _, remove := range c.Remove {
		before := len(out)
		out = slices.DeleteFunc(out, func(t corev1.Taint) bool { return matches(remove, t) })
		if len(out) == before {
			errs = append(errs, fmt.Errorf("taint %q not found", remove.ToString()))
		}
	}
	for _, add := range c.Add {
		i := slices.IndexFunc(out, func(t corev1.Taint) bool { return t.MatchTaint(&add) })
		switch {
		case i < 0:
			out = append(out, add)
		case out[i].Value == add.Value: // with the time at which it was put on
		case !c.Overwrite:
			errs = append(errs, fmt.Errorf("taint %q is there already; --overwrite changes its value to %q", out[i].ToString(), add.Value))
		default:
			out[i] = add
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return out, nil
}

// Verb is what a change did, in the word that kubectl taint has for it.
func (c Taints) Verb() string {
	switch {
	case len(c.Add) > 0 && len(c.Remove) > 0, c.Overwrite:
		return "modified"
	case len(c.Add) > 0:
		return "tainted"
	}
	return "untainted"
}
