// Package weighed keeps what is expensive to make and can be made again, up to a
// weight in bytes: how many there are says little where one is a thousand times as
// heavy as another, and a tenant chooses which.
//
// What was used least recently goes first. What is asked for by several at a time is made
// once. What is heavier than the whole bound is made, handed out, and not kept. Whoever
// got something holds it for as long as he uses it: a bound on that is his business.
//
// A Room bounds what is done or held at a time in the same way, with a share for each
// logical cluster.
package weighed
