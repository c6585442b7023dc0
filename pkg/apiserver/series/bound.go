package series

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/component-base/metrics"
)

// resourceMetrics have the label resource, and mostly group, version, subresource.
var resourceMetrics = []string{
	// Requests.
	"apiserver_requested_deprecated_apis", "apiserver_request_total", "apiserver_longrunning_requests", "apiserver_request_duration_seconds",
	"apiserver_request_sli_duration_seconds", "apiserver_response_sizes", "apiserver_watch_events_total", "apiserver_watch_events_sizes",
	"apiserver_request_terminations_total", "apiserver_selfrequest_total", "apiserver_request_aborts_total",
	"apiserver_request_timestamp_comparison_time", "apiserver_request_body_size_bytes",
	// Watch caches.
	"apiserver_cache_list_total", "apiserver_cache_list_fetched_objects_total", "apiserver_cache_list_returned_objects_total",
	"apiserver_init_events_total", "apiserver_watch_cache_events_received_total", "apiserver_watch_cache_events_dispatched_total",
	"apiserver_terminated_watchers_total", "apiserver_watch_cache_resource_version", "watch_cache_capacity_increase_total",
	"watch_cache_capacity_decrease_total", "watch_cache_capacity", "apiserver_watch_cache_initializations_total",
	"apiserver_watch_cache_initialization_errors_total", "apiserver_watch_cache_initialization_duration_seconds",
	"apiserver_watch_cache_read_wait_seconds", "apiserver_watch_cache_consistent_read_total", "apiserver_storage_consistency_checks_total",
	"apiserver_watch_shards_total", "apiserver_watch_filtered_events_total", "apiserver_watch_events_dispatch_duration_seconds",
	// Storage.
	"apiserver_storage_list_total", "apiserver_storage_list_fetched_objects_total", "apiserver_storage_list_evaluated_objects_total",
	"apiserver_storage_list_returned_objects_total", "etcd_request_duration_seconds", "etcd_requests_total", "etcd_request_errors_total",
	"apiserver_resource_size_estimate_bytes", "apiserver_resource_objects", "apiserver_storage_events_received_total",
	"etcd_bookmark_counts", "etcd_bookmark_total", "apiserver_storage_decode_errors_total", "apiserver_storage_list_duration_seconds",
}

// nameMetrics have labels that are names of objects.
var nameMetrics = map[string][]string{
	"apiserver_admission_webhook_admission_duration_seconds":       {"name"},
	"apiserver_admission_webhook_rejection_count":                  {"name"},
	"apiserver_admission_webhook_fail_open_count":                  {"name"},
	"apiserver_admission_webhook_request_total":                    {"name"},
	"apiserver_admission_match_condition_evaluation_errors_total":  {"name"},
	"apiserver_admission_match_condition_exclusions_total":         {"name"},
	"apiserver_admission_match_condition_evaluation_seconds":       {"name"},
	"apiserver_validating_admission_policy_check_total":            {"policy", "policy_binding"},
	"apiserver_validating_admission_policy_check_duration_seconds": {"policy", "policy_binding"},
	"apiserver_mutating_admission_policy_check_total":              {"policy", "policy_binding"},
	"apiserver_mutating_admission_policy_check_duration_seconds":   {"policy", "policy_binding"},
	"apiserver_crd_conversion_webhook_duration_seconds":            {"crd_name", "from_version", "to_version"},
	"rest_client_request_duration_seconds":                         {"host"},
	"rest_client_dns_resolution_duration_seconds":                  {"host"},
	"rest_client_request_size_bytes":                               {"host"},
	"rest_client_response_size_bytes":                              {"host"},
	"rest_client_rate_limiter_duration_seconds":                    {"host"},
	"rest_client_requests_total":                                   {"host"},
	"rest_client_request_retries_total":                            {"host"},
}

// objectsMetric has groups in the values of its label resource.
const objectsMetric = "apiserver_storage_objects"

var subresources = []string{
	"approval", "attach", "binding", "ephemeralcontainers", "eviction", "exec", "finalize", "log", "portforward", "proxy", "resize", "scale", "status", "token",
}

// once: the lists are of the process, and must not change while metrics read them.
var once sync.Once

// Bound lets metrics name what is of the versions gvs in schemes, and nothing else.
// Only the first call counts.
func Bound(gvs []schema.GroupVersion, schemes ...*runtime.Scheme) {
	once.Do(func() { metrics.SetLabelAllowList(lists(gvs, schemes...)) })
}

// lists are the values of each label, in the form of upstream's flag.
func lists(gvs []schema.GroupVersion, schemes ...*runtime.Scheme) map[string]string {
	groups, versions, resources, both := map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, gv := range gvs {
		groups[gv.Group], versions[gv.Version] = true, true
		for _, scheme := range schemes {
			for kind := range scheme.KnownTypes(gv) {
				resource, _ := meta.UnsafeGuessKindToResource(gv.WithKind(kind))
				resources[resource.Resource], both[resource.GroupResource().String()] = true, true
			}
		}
	}
	out := map[string]string{objectsMetric + ",resource": list(both)}
	for _, name := range resourceMetrics {
		out[name+",group"], out[name+",version"], out[name+",resource"] = list(groups), list(versions), list(resources)
		out[name+",subresource"] = "," + strings.Join(subresources, ",")
	}
	for name, labels := range nameMetrics {
		for _, label := range labels {
			out[name+","+label] = ""
		}
	}
	return out
}

// list begins with the empty value: not every request has a resource.
func list(values map[string]bool) string {
	return "," + strings.Join(slices.Sorted(maps.Keys(values)), ",")
}
