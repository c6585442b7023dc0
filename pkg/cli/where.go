package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/tools/pager"
	"k8s.io/kubectl/pkg/util/completion"
	"k8s.io/kubectl/pkg/util/templates"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/cli/report"
)

func newWhereCommand(o *options) *cobra.Command {
	var all bool
	var selector string
	cmd := &cobra.Command{
		Use:   "where [TYPE/NAME... | TYPE [NAME...]]",
		Short: "Show on which physical clusters objects run, and how far they are",
		Long: templates.LongDesc(`Show on which physical clusters objects run, and how far they are.

			Without an object it shows the decision for the namespace and the Copies in it. "Mirrored" is what a controller
			of the physical cluster made. -o json prints the Placements and Copies, or the objects, that the rows come from.`),
		Example: templates.Examples(`
			# The namespace of the context
			kubectl atoll where

			# One object, and all Deployments
			kubectl atoll where deployment/web
			kubectl atoll where deployments -A -o wide`),
		ValidArgsFunction: completion.ResourceTypeAndNameCompletionFunc(o.factory),
	}
	print := newPrintFlags(cmd)
	cmd.Flags().BoolVarP(&all, "all-namespaces", "A", false, "Show all namespaces.")
	cmd.Flags().StringVarP(&selector, "selector", "l", "", "Selector (label query) to filter the objects of a TYPE.")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx, c, err := o.inCluster(cmd)
		if err != nil {
			return err
		}
		namespace, _, err := o.flags.ToRawKubeConfigLoader().Namespace()
		if err != nil {
			return err
		}
		if all {
			namespace = metav1.NamespaceAll
		}
		w := report.NewWhere()
		var objects []runtime.Object
		if len(args) == 0 {
			objects, err = c.whereNamespace(ctx, namespace, w)
		} else {
			objects, err = o.whereObjects(ctx, c, namespace, selector, args, w)
		}
		if err != nil {
			return err
		}
		if print.forPeople() && len(w.Table().Rows) == 0 {
			if namespace != metav1.NamespaceAll && len(args) == 0 {
				if _, err := c.kube.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{}); apierrors.IsNotFound(err) {
					return err
				}
				fmt.Fprintf(o.ErrOut, "Nothing in namespace %s is placed.\n", namespace)
				return nil
			}
			fmt.Fprintln(o.ErrOut, "No resources found")
			return nil
		}
		return print.print(o, w.Table(), objects...)
	}
	return cmd
}

// whereNamespace shows the decisions and Copies of a namespace, or of all.
func (c *connection) whereNamespace(ctx context.Context, namespace string, w *report.Where) ([]runtime.Object, error) {
	var objects []runtime.Object
	err := c.eachPlacement(ctx, namespace, func(p *placementv1alpha1.Placement) error {
		w.AddPlacement(p)
		objects = append(objects, p)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("listing Placements: %w", err)
	}
	copies, err := c.copies(ctx, namespace)
	if err != nil {
		return nil, err
	}
	w.AddCopies(copies)
	return append(objects, objectsOf(copies)...), nil
}

// copies are those of a namespace, or of all.
func (c *connection) copies(ctx context.Context, namespace string) ([]placementv1alpha1.Copy, error) {
	var out []placementv1alpha1.Copy
	p := pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		return c.atoll.PlacementV1alpha1().Copies(namespace).List(ctx, o)
	})
	p.PageSize = pageSize
	err := p.EachListItem(ctx, metav1.ListOptions{}, func(obj runtime.Object) error {
		out = append(out, *obj.(*placementv1alpha1.Copy))
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("listing Copies: %w", err)
	}
	return out, nil
}

// whereObjects shows objects that are named as kubectl get takes them.
func (o *options) whereObjects(ctx context.Context, c *connection, namespace, selector string, args []string, w *report.Where) ([]runtime.Object, error) {
	infos, err := o.factory.NewBuilder().Unstructured().NamespaceParam(namespace).DefaultNamespace().AllNamespaces(namespace == metav1.NamespaceAll).
		LabelSelectorParam(selector).ResourceTypeOrNameArgs(true, args...).RequestChunksOf(pageSize).ContinueOnError().Latest().Flatten().Do().Infos()
	if err != nil {
		return nil, err
	}
	var objects []runtime.Object
	byNamespace := map[string][]placementv1alpha1.Copy{}
	for _, info := range infos {
		obj := object(info)
		if _, ok := byNamespace[obj.Namespace]; !ok && obj.Namespace != "" {
			if byNamespace[obj.Namespace], err = c.copies(ctx, obj.Namespace); err != nil {
				return nil, err
			}
		}
		w.AddObject(obj, byNamespace[obj.Namespace])
		objects = append(objects, info.Object)
	}
	return objects, nil
}

// object is what is asked of one. The Copies of a Namespace are in it.
func object(info *resource.Info) report.Object {
	u := info.Object.(*unstructured.Unstructured)
	gvr := info.Mapping.Resource
	out := report.Object{Type: gvr.GroupResource().String(), Namespace: info.Namespace, Name: info.Name, UID: u.GetUID(), Annotations: u.GetAnnotations()}
	if gvr.Group == "" && gvr.Resource == "namespaces" {
		out.Namespace = info.Name
	}
	return out
}
