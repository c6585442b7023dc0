package placement

import "time"

const (
	// podsDelay is how long what only follows others waits for something that makes pods,
	// before it has its unit decided by itself: tools that install an application write its
	// Services, claims and budgets first, and its Deployments within a second or two.
	podsDelay = 2 * time.Second
	// maxSkew is how far the clocks of two servers are taken to be apart.
	maxSkew = 10 * time.Second
)

// AwaitsPods says for how much longer an object that follows others leaves its unit
// undecided, if nothing in it makes pods. created is by the clock of the server that stored
// it, cut to the second; seen is when this one had it first, by its own clock as now is.
//
//	created, by this clock          seen           then
//	ten seconds ago, or before      any            no longer: this server has started since, or forgot
//	less long ago, or in the future 2 s ago        no longer
//	less long ago, or in the future less long ago  the rest of these 2 s
//
// So every server ends the waiting by itself, whatever its clock shows; one that is ten
// seconds and more ahead of the others does not have it wait.
func AwaitsPods(created, seen, now time.Time) time.Duration {
	if now.Sub(created) >= maxSkew {
		return 0
	}
	return min(max(seen.Add(podsDelay).Sub(now), 0), podsDelay)
}
