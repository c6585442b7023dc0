package cluster

import (
	"fmt"

	nodefast "sigs.k8s.io/kwok/kustomize/stage/node/fast"
	nodelease "sigs.k8s.io/kwok/kustomize/stage/node/heartbeat-with-lease"
	podfast "sigs.k8s.io/kwok/kustomize/stage/pod/fast"
	"sigs.k8s.io/kwok/pkg/apis/internalversion"
	kwokconfig "sigs.k8s.io/kwok/pkg/config"
)

// jobSeconds computes from a pod how long its containers run: `sleep N` takes N
// seconds, the pause image a day; nothing means that they say nothing about it.
const jobSeconds = `[.spec.containers[] |
	if (.image | test("/pause:")) or ((.args // []) == ["pause"]) then 86400
	else (((.command // []) + (.args // [])) | join(" ") | capture("sleep +(?<n>[0-9]+)").n | tonumber) end
] | max | select(. != null) | tostring + "s"`

// loadStages returns what simulated nodes and pods do: kwok's own stages, save
// that the pod of a Job runs for a moment before it is complete, so that its
// controllers see it run as they would on a real node.
func loadStages() (map[internalversion.StageResourceRef][]*internalversion.Stage, error) {
	stages := map[internalversion.StageResourceRef][]*internalversion.Stage{}
	for _, source := range []string{
		nodefast.DefaultNodeInit, nodelease.DefaultNodeHeartbeatWithLease,
		podfast.DefaultPodReady, podfast.DefaultPodComplete, podfast.DefaultPodDelete,
	} {
		stage, err := kwokconfig.UnmarshalWithType[*internalversion.Stage](source)
		if err != nil {
			return nil, fmt.Errorf("reading the stages of simulated pods: %w", err)
		}
		if stage.Name == "pod-complete" {
			second := int64(1000)
			stage.Spec.Delay = &internalversion.StageDelay{
				DurationMilliseconds: &second,
				DurationFrom:         &internalversion.ExpressionFrom{JQ: &internalversion.ExpressionJQ{Expression: jobSeconds}},
			}
		}
		stages[stage.Spec.ResourceRef] = append(stages[stage.Spec.ResourceRef], stage)
	}
	return stages, nil
}
