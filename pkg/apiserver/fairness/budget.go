package fairness

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/kcp-dev/logicalcluster/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
)

// EvaluationBudget is for how long expressions of a logical cluster may be evaluated for one
// request, all together: those of policies, of match conditions of webhooks, and of rules in
// schemas. Upstream bounds each binding of a policy, each webhook and each validation of a custom
// resource by a cost that is meant to be a second at most, and no number of them.
const EvaluationBudget = 2 * time.Second

// CauseEvaluation is the cause in the answer to a request whose expressions evaluate for too long.
const CauseEvaluation metav1.CauseType = "PolicyEvaluationBudget"

// ErrSpent ends an evaluation.
var ErrSpent = errors.New("the budget of the request is spent")

// Budget is what is left of EvaluationBudget for one request. It is spent between Start and
// Stop, but for the time in which the request waits for somebody else.
type Budget struct {
	mu      sync.Mutex
	spent   time.Duration
	running bool
	pauses  int
	began   time.Time // not zero while it is being spent
	timer   clock.Timer
	end     func()
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
	return b.left()
}

func (b *Budget) left() time.Duration { return max(0, EvaluationBudget-b.spent) }

// Spend takes from it.
func (b *Budget) Spend(d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.spent += d
}

// Start begins to spend it; end, if not nil, is called when nothing is left.
func (b *Budget) Start(end func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.halt()
	b.running, b.end = true, end
	b.proceed()
}

// Stop ends what Start began, if it did.
func (b *Budget) Stop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.halt()
	b.running, b.end = false, nil
}

// Within returns a context that ends, with ErrSpent, when the budget is spent. Spent is called
// when the evaluation is over, and says whether it was ended.
func (b *Budget) Within(ctx context.Context) (within context.Context, spent func() bool) {
	within, cancel := context.WithCancelCause(ctx)
	b.Start(func() { cancel(ErrSpent) })
	return within, func() bool {
		b.Stop()
		defer cancel(nil)
		return errors.Is(context.Cause(within), ErrSpent)
	}
}

func (b *Budget) pause() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.halt()
	b.pauses++
}

func (b *Budget) resume() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pauses--
	b.proceed()
}

// proceed spends, if it is running and not paused.
func (b *Budget) proceed() {
	if !b.running || b.pauses > 0 || !b.began.IsZero() {
		return
	}
	b.began = clock.RealClock{}.Now()
	if b.end != nil {
		b.timer = clock.RealClock{}.AfterFunc(b.left(), b.end)
	}
}

// halt counts what was spent.
func (b *Budget) halt() {
	if b.timer != nil {
		b.timer.Stop()
		b.timer = nil
	}
	if !b.began.IsZero() {
		b.spent += clock.RealClock{}.Since(b.began)
		b.began = time.Time{}
	}
}

// Spent is the answer to a request whose budget is spent.
func Spent(c logicalcluster.Name, gr schema.GroupResource, name string) error {
	why := SpentMessage(c)
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden,
		Message: fmt.Sprintf("%s %q is forbidden: %s", gr, name, why),
		Details: &metav1.StatusDetails{Group: gr.Group, Kind: gr.Resource, Name: name,
			Causes: []metav1.StatusCause{{Type: CauseEvaluation, Message: why}}},
	}}
}

// SpentMessage says why, and the way out.
func SpentMessage(c logicalcluster.Name) string {
	return fmt.Sprintf("policies, match conditions of webhooks and rules of schemas of logical cluster %q evaluate expressions for longer than the %s that one request has for all of them: make their expressions cheaper, match less by matchConstraints, or bind fewer",
		c, EvaluationBudget)
}
