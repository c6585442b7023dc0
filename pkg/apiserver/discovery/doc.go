// Package discovery tells clients what a logical cluster serves: discovery (one
// document, or one for each group and version) and OpenAPI (v2 and v3).
//
// Built-in groups are the same everywhere and served by the generic server. What
// a logical cluster serves beside them comes from Sources. A source gives a key
// for what a logical cluster has; documents are made once for each key, when they
// are asked for first, so logical clusters that serve the same share them, and one
// that serves nothing of its own costs nothing.
//
// OpenAPI documents are merged, as bytes, when they are asked for. What is kept is what
// each definition has in them, compressed, up to a weight: rendered.go, packed.go.
//
// A version may be served elsewhere: then so are its own documents, and controllers
// do not see it.
//
//	GET /apis, /openapi/v2, /openapi/v3     built-in groups and those of the sources
//	GET /apis/GROUP[/VERSION]               the sources, then the built-in groups
//	GET /openapi/v3/apis/GROUP/VERSION      the same
package discovery
