package fairness

import (
	"context"
	"sync"
	"time"
)

// EvaluationBudget is for how long the policies of a logical cluster may evaluate
// expressions for one request, all together. Upstream bounds each binding of a policy by a
// cost that is meant to be a second, and no number of them.
const EvaluationBudget = 2 * time.Second

// Budget is what is left of EvaluationBudget for one request.
type Budget struct {
	mu    sync.Mutex
	spent time.Duration
}

// BudgetOf is that of the request of ctx; one of its own for who has no request.
func BudgetOf(ctx context.Context) *Budget {
	if t, ok := ctx.Value(slotKey{}).(*slot); ok {
		return &t.budget
	}
	return &Budget{}
}

// Left is how much there is.
func (b *Budget) Left() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	return max(0, EvaluationBudget-b.spent)
}

// Spend takes from it.
func (b *Budget) Spend(d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.spent += d
}
