// Package wire makes dynamic clients that read what servers say fewer times.
//
// The stock dynamic client reads the JSON of each event of a watch nine times: to find
// its end, what kind it has, whether it is valid and where it ends, three times over
// for the event, the object in it and the map that the object becomes. Here it is
// three: framing, a check, a map. Requests, retries and watches are client-go's own;
// only the serializer differs, which client-go takes as a value.
//
// Invariant: of what an API server writes, the same is read as by the stock serializer,
// and what is no JSON is refused. Whatever does not begin as API servers write it, and
// whatever is not read as an unstructured object (a Status), is left to the
// stock one.
//
// Nothing is kept between two reads.
package wire
