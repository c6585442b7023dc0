package names

import discoveryv1 "k8s.io/api/discovery/v1"

// Ready says that one of the pods that answer is, by the EndpointSlices of their Service
// atoll-dns.
func Ready(endpoints []discoveryv1.EndpointSlice) bool {
	for _, s := range endpoints {
		if s.Labels[discoveryv1.LabelServiceName] != AppName {
			continue
		}
		for _, e := range s.Endpoints {
			if e.Conditions.Ready == nil || *e.Conditions.Ready {
				return true
			}
		}
	}
	return false
}
