package builtin

import (
	"fmt"

	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	metricsapi "k8s.io/metrics/pkg/apis/metrics"
	"k8s.io/metrics/pkg/apis/metrics/install"
	metricsv1 "k8s.io/metrics/pkg/apis/metrics/v1"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"github.com/atoll-dev/atoll/pkg/apiserver/registry/metrics"
)

func init() { install.Install(legacyscheme.Scheme) }

// usage is the group metrics.k8s.io. It reads what the core group stores, which fills config
// as it is made.
type usage struct{ config *metrics.Config }

func (usage) GroupName() string { return metricsapi.GroupName }

func (u usage) NewRESTStorage(serverstorage.APIResourceConfigSource, generic.RESTOptionsGetter) (genericapiserver.APIGroupInfo, error) {
	info := genericapiserver.NewDefaultAPIGroupInfo(metricsapi.GroupName, legacyscheme.Scheme, legacyscheme.ParameterCodec, legacyscheme.Codecs)
	if u.config.Pods == nil {
		return info, fmt.Errorf("the core group has not been made yet")
	}
	m := map[string]rest.Storage{
		"pods":  &metrics.Pods{Config: *u.config, TableConvertor: rest.NewDefaultTableConvertor(metricsapi.Resource("pods"))},
		"nodes": &metrics.Nodes{Config: *u.config, TableConvertor: rest.NewDefaultTableConvertor(metricsapi.Resource("nodes"))},
	}
	info.VersionedResourcesStorageMap[metricsv1.SchemeGroupVersion.Version] = m
	info.VersionedResourcesStorageMap[metricsv1beta1.SchemeGroupVersion.Version] = m
	return info, nil
}
