package syncer

import (
	"encoding/base64"
	"errors"
	"maps"
	"strconv"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/stamp"
	"github.com/atoll-dev/atoll/pkg/workload"
)

const (
	// SupplyLabel marks what is made below for the pods of a namespace.
	SupplyLabel           = "atoll.dev/supply"
	supplyToken, supplyCA = "token", "ca" // its values

	issuedAnnotation   = "atoll.dev/issued"
	expiresAnnotation  = "atoll.dev/expires"
	audienceAnnotation = "atoll.dev/audience"
	secondsAnnotation  = "atoll.dev/seconds"
)

// ErrSupplyNotOurs says that the name of a supply is taken below.
var ErrSupplyNotOurs = errors.New("an object of this name on the physical cluster was made by somebody else")

// Space is a namespace: the logical one, and its physical one on a target.
type Space struct {
	Cluster             logicalcluster.Name
	Namespace, Physical string
}

// TokenSecret is the Secret that holds a token in a physical namespace. It says what the
// token is, so that it can be renewed.
func TokenSecret(controlPlane string, in Space, t Token, token string, issued, expires time.Time) *unstructured.Unstructured {
	s := supply(controlPlane, "Secret", in, t.Secret(), supplyToken)
	annotations := s.GetAnnotations()
	maps.Copy(annotations, map[string]string{
		issuedAnnotation: issued.UTC().Format(time.RFC3339), expiresAnnotation: expires.UTC().Format(time.RFC3339),
		accountAnnotation: t.Account, accountUIDAnnotation: string(t.UID), audienceAnnotation: t.Audience, secondsAnnotation: strconv.FormatInt(t.Seconds, 10),
	})
	s.SetAnnotations(annotations)
	s.Object["type"], s.Object["data"] = "Opaque", map[string]any{tokenKey: base64.StdEncoding.EncodeToString([]byte(token))}
	return s
}

const tokenKey = "token"

// TokenIn reads what TokenSecret wrote; ok is false if somebody else wrote it.
func TokenIn(secret *unstructured.Unstructured) (t Token, ok bool) {
	a := secret.GetAnnotations()
	seconds, err := strconv.ParseInt(a[secondsAnnotation], 10, 64)
	t = Token{TokenUse: workload.TokenUse{Account: a[accountAnnotation], Audience: a[audienceAnnotation], Seconds: seconds}, UID: types.UID(a[accountUIDAnnotation])}
	return t, err == nil && secret.GetName() == t.Secret()
}

// SpaceOf is the namespace that a supply is for.
func SpaceOf(obj *unstructured.Unstructured) Space {
	a := obj.GetAnnotations()
	return Space{Cluster: logicalcluster.Name(a[placementv1alpha1.LogicalClusterAnnotation]), Namespace: a[placementv1alpha1.NamespaceAnnotation], Physical: obj.GetNamespace()}
}

// CAConfigMap is the ConfigMap with the authority in a physical namespace.
func CAConfigMap(controlPlane string, in Space, ca string) *unstructured.Unstructured {
	c := supply(controlPlane, "ConfigMap", in, ourRootCA, supplyCA)
	c.Object["data"] = map[string]any{rootCAKey: ca}
	return c
}

const rootCAKey = "ca.crt"

// CAIn reads what CAConfigMap wrote.
func CAIn(configMap *unstructured.Unstructured) string {
	return text(field(configMap.Object, "data"), rootCAKey)
}

// Names are those of the Secrets and the ConfigMap that hold supplies.
func (s Supplies) Names() (secrets []string, configMap string) {
	for _, t := range s.Tokens {
		secrets = append(secrets, t.Secret())
	}
	if s.CA != "" {
		configMap = ourRootCA
	}
	return secrets, configMap
}

func supply(controlPlane, kind string, in Space, name, what string) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": kind}}
	obj.SetNamespace(in.Physical)
	obj.SetName(name)
	obj.SetLabels(map[string]string{placementv1alpha1.ManagedByLabel: controlPlane, SupplyLabel: what})
	obj.SetAnnotations(map[string]string{
		placementv1alpha1.LogicalClusterAnnotation: in.Cluster.String(), placementv1alpha1.NamespaceAnnotation: in.Namespace,
	})
	return obj
}

// IsSupply says that an object below was made by TokenSecret or CAConfigMap.
func IsSupply(controlPlane string, obj *unstructured.Unstructured) bool {
	labels := obj.GetLabels()
	return labels[SupplyLabel] != "" && labels[placementv1alpha1.ManagedByLabel] == controlPlane
}

// HoldsToken says which of the two a supply is.
func HoldsToken(supply *unstructured.Unstructured) bool {
	return supply.GetLabels()[SupplyLabel] == supplyToken
}

// SupplyStanding is how good a supply is.
type SupplyStanding string

const (
	SupplyGood    SupplyStanding = "Good"
	SupplyDue     SupplyStanding = "Due" // good as yet, but to be renewed
	SupplyExpired SupplyStanding = "Expired"
)

// StandingOf says how good a Secret with a token is: due after half of its life, and if
// somebody took off what says when that is.
func StandingOf(secret *unstructured.Unstructured, now time.Time) SupplyStanding {
	issued, errIssued := time.Parse(time.RFC3339, secret.GetAnnotations()[issuedAnnotation])
	expires, errExpires := time.Parse(time.RFC3339, secret.GetAnnotations()[expiresAnnotation])
	data := field(secret.Object, "data")
	switch {
	case errIssued != nil || errExpires != nil || text(data, tokenKey) == "" || !now.Before(expires):
		return SupplyExpired
	case now.After(issued.Add(expires.Sub(issued)/2)) || issued.After(now.Add(time.Minute)):
		return SupplyDue
	}
	return SupplyGood
}

// Mounted are the names of Secrets and ConfigMaps that a pod below mounts in a projected
// volume, where supplies are.
func Mounted(pod *unstructured.Unstructured) []string {
	var names []string
	spec := field(pod.Object, "spec")
	for _, volume := range list(spec, "volumes") {
		for _, source := range list(field(volume, "projected"), "sources") {
			names = append(names, text(field(source, "secret"), "name"), text(field(source, "configMap"), "name"))
		}
	}
	if len(rootCARefs(spec, ourRootCA)) > 0 {
		names = append(names, ourRootCA)
	}
	return names
}

// Keeps says that an object of a user has, or is to have, a copy on a target.
func Keeps(target string, obj *unstructured.Unstructured) bool {
	entry, ok := stamp.TargetsOf(obj.GetAnnotations())[target]
	return ok && (entry.Keeps() || entry.Adopted)
}

// AccountUsed is the account that the pods of an object run as; empty without pods.
func AccountUsed(kind workload.Kind, obj *unstructured.Unstructured) string {
	templates := workload.PodTemplates(kind, obj.Object)
	if len(templates) == 0 {
		return ""
	}
	return workload.AccountOf(field(templates[0], "spec"))
}

// NotSupplied is the failure to make supplies. The errors of requests for tokens, and of
// writes of Secrets, name objects and say nothing of what is in them.
func NotSupplied(err error) *Failure {
	return &Failure{Reason: "NoToken", Message: bounded(err.Error())}
}
