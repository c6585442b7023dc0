// Package tokens fills the Secrets of type kubernetes.io/service-account-token: the
// older way to a token of a service account, which does not expire. A Secret gets
// the token, the certificate authority of the server and its namespace, and goes
// with its account, as kube-controller-manager does for one cluster.
//
//	Secret                                      result
//	its account lives, something is missing     what is missing is put in
//	its account lives, nothing is missing       left alone
//	its account is gone or another one          deleted
//	gone, its account mentions it               taken from the account's list
//
// An informer knows these Secrets alone, over all logical clusters. That an account
// is gone counts only when the server says so.
//
// How a token is signed and verified, pkg/apiserver/auth knows: it is good in its own
// logical cluster only, as long as the Secret holds it.
package tokens
