// Package loopback lets the server talk to itself without a network.
//
// Controllers, admission and the syncers inside the server are ordinary API
// clients. Transport hands their requests to the server's handler in the same
// process: no TCP, TLS and HTTP/2, which cost more than most of the requests
// themselves. Everything else is as over the network:
//
//   - The handler is the whole chain. A request is authenticated by the bearer
//     token that client-go puts on it; nothing about the transport is trusted,
//     and no context value says who asks.
//   - Nothing of the client's context reaches the handler but its end. What a
//     filter has put there for the request that is being served (its user, its
//     scope, its warnings) would otherwise leak into the requests that serving
//     it takes.
//   - A response streams: watches flush, and a reader that is slow holds up the
//     writer.
//
// Invariant: a response that the handler did not finish never looks like a whole
// one; reading its body fails.
//
// Each request has one goroutine, for as long as its handler runs.
package loopback
