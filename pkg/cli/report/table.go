package report

import (
	"strings"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
)

const (
	none    = "<none>"
	unknown = "<unknown>"
)

// newTable has columns; those whose name begins with "+" are shown with -o wide only.
func newTable(columns ...string) *metav1.Table {
	t := &metav1.Table{}
	for _, name := range columns {
		name, wide := strings.CutPrefix(name, "+")
		c := metav1.TableColumnDefinition{Name: name, Type: "string"}
		if wide {
			c.Priority = 1
		}
		t.ColumnDefinitions = append(t.ColumnDefinitions, c)
	}
	return t
}

// add adds a row of cells, one for each column.
func add(t *metav1.Table, cells ...string) {
	row := metav1.TableRow{}
	for _, cell := range cells {
		row.Cells = append(row.Cells, cell)
	}
	t.Rows = append(t.Rows, row)
}

func age(since metav1.Time, now time.Time) string {
	if since.IsZero() {
		return unknown
	}
	return duration.HumanDuration(now.Sub(since.Time))
}

func orNone(s string) string {
	if s == "" {
		return none
	}
	return s
}

// names joins names for a cell.
func names(list []string) string { return orNone(strings.Join(list, ",")) }

// notTrue are the reason and the message of a condition that is not True, if it is known.
func notTrue(conditions []metav1.Condition, name string) (reason, message string, ok bool) {
	c := apimeta.FindStatusCondition(conditions, name)
	if c == nil || c.Status == metav1.ConditionTrue {
		return "", "", false
	}
	return c.Reason, c.Message, true
}
