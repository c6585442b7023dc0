package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/pager"

	placementv1alpha1 "github.com/atoll-dev/atoll/pkg/apis/placement/v1alpha1"
	"github.com/atoll-dev/atoll/pkg/cli/report"
	"github.com/atoll-dev/atoll/pkg/scope"
)

// pageSize is how many objects are read at a time.
const pageSize = 500

// eachPlacement calls f for each Placement of the logical cluster of ctx, or of all.
func (c *connection) eachPlacement(ctx context.Context, namespace string, f func(*placementv1alpha1.Placement) error) error {
	p := pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		return c.atoll.PlacementV1alpha1().Placements(namespace).List(ctx, o)
	})
	p.PageSize = pageSize
	return p.EachListItem(ctx, metav1.ListOptions{}, func(obj runtime.Object) error {
		return f(obj.(*placementv1alpha1.Placement))
	})
}

// usages counts what names the physical clusters, over all logical clusters.
func (c *connection) usages(ctx context.Context) (report.Usages, error) {
	all := scope.WithCluster(ctx, scope.Wildcard)
	out := report.Usages{}
	err := c.eachPlacement(all, metav1.NamespaceAll, func(p *placementv1alpha1.Placement) error {
		if p.Spec.Decision == nil {
			return nil
		}
		for _, target := range p.Spec.Decision.PhysicalClusters {
			u := out[target.Name]
			u.Placements++
			out[target.Name] = u
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("listing the Placements of all logical clusters: %w", err)
	}
	if err := c.countCopies(all, out); err != nil {
		return nil, fmt.Errorf("listing the Copies of all logical clusters: %w", err)
	}
	return out, nil
}

// countCopies counts Copies in tables without the objects: those have the status of all
// that runs, and there may be hundreds of thousands.
func (c *connection) countCopies(ctx context.Context, out report.Usages) error {
	client := c.atoll.PlacementV1alpha1().RESTClient()
	for next := ""; ; {
		var page metav1.Table
		raw, err := get(ctx, client, "copies", next)
		if err != nil {
			return err
		}
		if err := json.Unmarshal(raw, &page); err != nil {
			return fmt.Errorf("reading the table: %w", err)
		}
		column := slices.IndexFunc(page.ColumnDefinitions, func(d metav1.TableColumnDefinition) bool {
			return strings.EqualFold(d.Name, "Physical Cluster")
		})
		if column < 0 {
			return fmt.Errorf("the table has no column %q", "Physical Cluster")
		}
		for _, row := range page.Rows {
			if name, ok := row.Cells[column].(string); ok {
				u := out[name]
				u.Copies++
				out[name] = u
			}
		}
		if next = page.Continue; next == "" {
			return nil
		}
	}
}

func get(ctx context.Context, client rest.Interface, resource, next string) ([]byte, error) {
	return client.Get().Resource(resource).
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").
		Param("includeObject", string(metav1.IncludeNone)).
		Param("limit", fmt.Sprint(pageSize)).Param("continue", next).
		Do(ctx).Raw()
}
