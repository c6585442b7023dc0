package native

import (
	"context"

	metatable "k8s.io/apimachinery/pkg/api/meta/table"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// tableConvertor prints NAME, the columns of the kind, AGE.
type tableConvertor struct{ kind Kind }

var (
	nameColumn = metav1.TableColumnDefinition{Name: "Name", Type: "string", Format: "name", Description: "Name of the object."}
	ageColumn  = metav1.TableColumnDefinition{Name: "Age", Type: "string", Description: "Time since creation."}
)

// ConvertToTable implements rest.TableConvertor.
func (t tableConvertor) ConvertToTable(_ context.Context, obj runtime.Object, options runtime.Object) (*metav1.Table, error) {
	table := &metav1.Table{}
	if o, ok := options.(*metav1.TableOptions); !ok || !o.NoHeaders {
		table.ColumnDefinitions = append(table.ColumnDefinitions, nameColumn)
		table.ColumnDefinitions = append(table.ColumnDefinitions, t.kind.Columns...)
		table.ColumnDefinitions = append(table.ColumnDefinitions, ageColumn)
	}
	if m, ok := obj.(metav1.ListInterface); ok {
		table.ResourceVersion, table.Continue, table.RemainingItemCount = m.GetResourceVersion(), m.GetContinue(), m.GetRemainingItemCount()
	} else if m, ok := obj.(metav1.ListMetaAccessor); ok {
		l := m.GetListMeta()
		table.ResourceVersion, table.Continue, table.RemainingItemCount = l.GetResourceVersion(), l.GetContinue(), l.GetRemainingItemCount()
	} else {
		table.ResourceVersion = accessor(obj).GetResourceVersion()
	}
	var err error
	table.Rows, err = metatable.MetaToTableRow(obj, func(obj runtime.Object, _ metav1.Object, name, age string) ([]any, error) {
		return append(append([]any{name}, t.kind.Row(obj)...), age), nil
	})
	return table, err
}

func column(name, description string) metav1.TableColumnDefinition {
	return metav1.TableColumnDefinition{Name: name, Type: "string", Description: description}
}

func wideColumn(name, description string) metav1.TableColumnDefinition {
	return metav1.TableColumnDefinition{Name: name, Type: "string", Description: description, Priority: 1}
}
