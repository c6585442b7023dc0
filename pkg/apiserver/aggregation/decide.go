package aggregation

import (
	"errors"
	"fmt"
	"net"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/atoll-dev/atoll/pkg/apiserver/egress"
)

// maxServices is how many APIServices of a logical cluster are served: each costs
// a request now and then, at an address that a tenant chooses.
const maxServices = 32

// sight is what a check saw.
type sight struct {
	// rank is how many APIServices of the logical cluster are older.
	rank int
	// located is why the Service leads nowhere, answer why its server did not say
	// what it serves.
	located, answer error
}

// condition decides whether the APIService is available:
//
//	rank       located            answer   Available  reason
//	too high   any                any      False      TooManyAPIServices
//	fine       not found          any      False      ServiceNotFound
//	fine       leads nowhere      any      False      as egress.Locate says
//	fine       any other error    any      Unknown    ServiceAccessError
//	fine       nil                error    False      FailedDiscoveryCheck
//	fine       nil                nil      True       Passed
func (s sight) condition(ref *apiregistrationv1.ServiceReference, now metav1.Time) apiregistrationv1.APIServiceCondition {
	c := apiregistrationv1.APIServiceCondition{Type: apiregistrationv1.Available, Status: apiregistrationv1.ConditionFalse, LastTransitionTime: now}
	var unlocated *egress.UnlocatedError
	switch {
	case s.rank >= maxServices:
		c.Reason, c.Message = "TooManyAPIServices", fmt.Sprintf("a logical cluster may have %d APIServices that name a Service, and the older ones count", maxServices)
	case apierrors.IsNotFound(s.located):
		c.Reason, c.Message = "ServiceNotFound", fmt.Sprintf("service/%s in %q is not present", ref.Name, ref.Namespace)
	case errors.As(s.located, &unlocated):
		c.Reason, c.Message = unlocated.Reason, unlocated.Message
	case s.located != nil:
		c.Status, c.Reason = apiregistrationv1.ConditionUnknown, "ServiceAccessError"
		c.Message = fmt.Sprintf("service/%s in %q cannot be checked due to: %v", ref.Name, ref.Namespace, s.located)
	case s.answer != nil:
		c.Reason, c.Message = "FailedDiscoveryCheck", s.answer.Error()
	default:
		c.Status, c.Reason, c.Message = apiregistrationv1.ConditionTrue, "Passed", "all checks passed"
	}
	return c
}

// refused says why a request is not handed over; empty if it is. What this server
// saw itself counts before the condition, which is as old as the informer that it
// was read from, and may be of another server that does not reach what this one does:
//
//	hosts    last check here  condition   refused
//	unknown  any              any         it is not known where the server is
//	known    passed           any         no
//	known    failed           True        no: another server reaches it
//	known    failed           not True    its APIService says why
func refused(available bool, known *state) string {
	switch {
	case !available && (known == nil || !known.fresh):
		return "its APIService says why"
	case known == nil || len(known.hosts) == 0:
		return "it is not known where the server is"
	}
	return ""
}

// steady is err without what differs from time to time, such as the port of our
// end: a condition changes only if something does.
func steady(err error) error {
	var denied *egress.DeniedError
	if errors.As(err, &denied) {
		return denied
	}
	var op *net.OpError
	if errors.As(err, &op) {
		return fmt.Errorf("%s: %w", op.Op, op.Err)
	}
	var request *url.Error
	if errors.As(err, &request) {
		return request.Err
	}
	return err
}
