package pods

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// mayCreate demands the verb create of who asked with another one. SPDY upgrades by
// POST, which is create, WebSocket by GET: without this, who may look may run commands
// (kubernetes/kubernetes#133515, whose check is not exported).
func mayCreate(ctx context.Context, a authorizer.Authorizer) error {
	info, ok := request.RequestInfoFrom(ctx)
	if !ok {
		return apierrors.NewInternalError(errors.New("the context has no request"))
	}
	if info.Verb == "create" {
		return nil // authorized already
	}
	asked, err := filters.GetAuthorizerAttributes(ctx)
	if err != nil {
		return apierrors.NewInternalError(fmt.Errorf("reading the attributes of the request: %w", err))
	}
	decision, reason, err := a.Authorize(ctx, creating{asked})
	if err != nil {
		return apierrors.NewInternalError(fmt.Errorf("authorizing: %w", err))
	}
	if decision != authorizer.DecisionAllow {
		return apierrors.NewForbidden(schema.GroupResource{Group: info.APIGroup, Resource: info.Resource}, info.Name,
			fmt.Errorf("the verb create of %s/%s is needed: %s", info.Resource, info.Subresource, reason))
	}
	return nil
}

type creating struct{ authorizer.Attributes }

// GetVerb implements authorizer.Attributes.
func (creating) GetVerb() string { return "create" }

// IsReadOnly implements authorizer.Attributes.
func (creating) IsReadOnly() bool { return false }
