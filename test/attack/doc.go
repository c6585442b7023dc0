// Package attack is a list of attacks on a running control plane, by a hostile tenant, the
// syncer of a hostile physical cluster, or anybody; each is bounded in time. What an
// attack tries is in Fence, which fails if it succeeds. Control shows that it would bite
// if the fence were not there: the same attack by somebody who may, or with the fence
// switched off.
//
// The list runs against processes with two real physical clusters beside the hostile one
// (`make attack`), on which what goes down is looked at; what is not Real of it also against
// the server in process (test/integration/attack).
package attack
