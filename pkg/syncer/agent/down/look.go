package down

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/controller"
	"github.com/atoll-dev/atoll/pkg/syncer"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/connection"
	"github.com/atoll-dev/atoll/pkg/syncer/agent/view"
)

// look asks the physical cluster itself.
func (p *pass) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, connection.RequestTimeout)
	defer cancel()
	r := p.physicalRequest()
	informed, _ := p.View.Physical(p.key.Resource, r)
	obj, err := p.physicalClient().Get(ctx, r.Name, metav1.GetOptions{})
	if p.kind.Carries && apierrors.IsNotFound(err) {
		if err := p.carriedGone(err); err != nil {
			return err
		}
		p.in.Physical, p.in.Unseen, p.stray = nil, false, false
		return nil
	}
	gone := syncer.IsGone(err, p.key.Resource.GroupResource(), r.Name)
	kindGone := func() (bool, error) { return p.Down.KindGone(ctx, p.key.Resource.GroupResource()) }
	if p.in, err = syncer.Looked(p.in, p.key.Resource, r.Name, obj, err, kindGone); err != nil {
		return err
	}
	if gone {
		p.View.Gone(p.key.Resource, informed)
	}
	p.stray = p.in.Physical != nil
	return nil
}

// physicalRequest names the copy.
func (p *pass) physicalRequest() controller.Request {
	if p.in.Ref.IsNamespace() {
		return controller.Request{Name: p.in.Namespace.Name}
	}
	if c := p.in.Carried; c != nil {
		return controller.Request{Namespace: c.Namespace, Name: c.Name}
	}
	return controller.Request{Namespace: p.in.Namespace.Name, Name: p.key.Request.Name}
}

func (p *pass) physicalClient() dynamic.ResourceInterface {
	if c := p.in.Carried; c != nil {
		resource := p.Down.Dynamic.Resource(carriedResource(c))
		if c.Namespace == "" {
			return resource
		}
		return resource.Namespace(c.Namespace)
	}
	c := p.Down.Dynamic.Resource(p.key.Resource)
	if p.in.Ref.IsNamespace() {
		return c
	}
	return c.Namespace(p.in.Namespace.Name)
}

// logicalClient reads what the target sees of the control plane.
func (p *pass) logicalClient() dynamic.ResourceInterface {
	c := p.Up.Dynamic.Resource(p.key.Resource)
	if p.in.Ref.IsNamespace() {
		return c
	}
	return c.Namespace(p.key.Request.Namespace)
}

// askCopy is the Copy as the server has it now, if it is still the one that was planned with.
func (p *pass) askCopy(ctx context.Context) (*placementv1alpha1.Copy, error) {
	c, err := p.Up.Atoll.PlacementV1alpha1().Copies(p.in.Copy.Namespace).Get(ctx, p.in.Copy.Name, metav1.GetOptions{})
	switch {
	case syncer.IsGone(err, placementv1alpha1.Resource("copies"), p.in.Copy.Name):
		p.View.WrittenCopies.Gone(p.key, p.in.Copy.UID)
		return nil, errAgain
	case err != nil:
		return nil, fmt.Errorf("asking the server for the copy: %w", err)
	case c.UID != p.in.Copy.UID || c.Spec.Object.UID != p.in.Copy.Spec.Object.UID:
		p.View.WrittenCopies.Put(p.key, c)
		return nil, errAgain
	}
	return c, nil
}

// ask finds out whether the object with uid still exists, from a server that
// still knows of its Copy: a server that has forgotten both, one that is another
// one, or one without the logical cluster has no say.
func (p *pass) ask(ctx context.Context, uid types.UID) error {
	if _, err := p.askCopy(ctx); err != nil {
		return err
	}
	obj, err := p.logicalClient().Get(ctx, p.key.Request.Name, metav1.GetOptions{})
	switch {
	case syncer.IsGone(err, p.key.Resource.GroupResource(), p.key.Request.Name):
		p.in.Gone = append(p.in.Gone, uid)
		return nil
	case err != nil:
		return fmt.Errorf("asking the server for the object: %w", err)
	case obj.GetUID() != uid:
		p.in.Gone = append(p.in.Gone, uid)
		return nil
	}
	return errAgain // it is there: our view of it will come
}

// namespaceGone: an object was refused because its namespace does not exist. If the
// namespace itself does not either, it is made again.
func (p *pass) namespaceGone(ctx context.Context) error {
	name := p.in.Namespace.Name
	key := view.KeyOfNamespace(p.key.Request.Cluster, p.key.Request.Namespace)
	obj, known := p.View.CopyBelow(key, controller.Request{Name: name})
	_, err := p.Down.Dynamic.Resource(view.Namespaces).Get(ctx, name, metav1.GetOptions{})
	switch {
	case err == nil:
		return nil // made meanwhile
	case !apierrors.IsNotFound(err):
		return fmt.Errorf("looking for the physical namespace: %w", err)
	}
	if known {
		p.View.WrittenBelow.Forget(key, obj.GetUID())
		p.View.Gone(view.Namespaces, obj)
	}
	return nil
}
