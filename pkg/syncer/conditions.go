package syncer

import (
	"slices"
)

// badWhenTrue are the condition types that report trouble.
var badWhenTrue = map[string]bool{
	"ReplicaFailure": true, "Failed": true, "FailureTarget": true, "DisruptionTarget": true, "ScalingLimited": true, "Stalled": true,
}

// worstConditions merges conditions by type: of each the worst, with its target
// named in the message. A target that does not have a condition which others
// have cannot confirm it: a good one becomes Unknown. Those of the types in without are
// merged by who knows better.
func worstConditions(views []view, without ...string) []any {
	var types []string
	for _, v := range views {
		for _, c := range list(v.status, "conditions") {
			if t, ok := c["type"].(string); ok && !slices.Contains(types, t) && !slices.Contains(without, t) {
				types = append(types, t)
			}
		}
	}
	slices.Sort(types)
	var out []any
	for _, t := range types {
		out = append(out, worstCondition(t, views))
	}
	return out
}

func worstCondition(conditionType string, views []view) map[string]any {
	var worst map[string]any
	worstTarget, silent := "", ""
	for _, v := range views {
		c := conditionOf(v, conditionType)
		switch {
		case c == nil:
			silent = v.target
		case worst == nil || severity(c) > severity(worst):
			worst, worstTarget = c, v.target
		}
	}
	out := deepCopy(worst).(map[string]any)
	if silent != "" && !badWhenTrue[conditionType] && severity(worst) < severe {
		out["status"], out["reason"], out["message"] = "Unknown", "NotReported", silent+": not reported yet"
		return out
	}
	if message, _ := out["message"].(string); message != "" {
		out["message"] = worstTarget + ": " + message
	}
	return out
}

func conditionOf(v view, conditionType string) map[string]any {
	for _, c := range list(v.status, "conditions") {
		if c["type"] == conditionType {
			return c
		}
	}
	return nil
}

// severe is the severity of a condition that reports trouble or is unknown.
const severe = 2

// severity orders conditions: well, well but still moving, unknown, trouble.
func severity(condition map[string]any) int {
	t, _ := condition["type"].(string)
	good := "True"
	if badWhenTrue[t] {
		good = "False"
	}
	switch condition["status"] {
	case good:
		if t == "Progressing" && condition["reason"] != "NewReplicaSetAvailable" {
			return 1
		}
		return 0
	case "Unknown":
		return severe
	}
	return severe + 1
}
