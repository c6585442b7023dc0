// Command bench measures what Atoll costs, and prints it beside what the same
// things cost a stock kube-apiserver, in the same run on the same machine.
//
// Its parts, in this order (-parts chooses):
//
//	empty       what a server holds that nobody uses: heap, goroutines,
//	            connections, resident memory
//	operations  create, get, list, update, delete: latency and CPU, against the
//	            kube-apiserver of localcluster
//	clusters    what a logical cluster costs: time until it is usable, heap,
//	            goroutines, resident memory, latency, with few and with many
//	journeys    from apply to the object in a physical cluster, and from a status
//	            there to the status above, for one object and for many at once
//	documents   what definitions and the documents about them take in memory
//	neighbour   what each noise of a hostile tenant does to a tenant beside it
//	moves       from the edit that moves a unit to its end, and drains of many units:
//	            time, CPU, requests, surge, and whether their Services were reached
//	placing     what it takes to place an object, with few and with many physical clusters
//	decisions   decisions a second, with few and with many physical clusters
//	builds      what a placed Deployment costs this build and a previous one
//
// The processes are those of bin/, each with an embedded etcd that does not
// flush to disk. All times are wall times at the client, all CPU is that of the
// whole server process. Sides take turns in blocks of a fraction of a second, so
// that whatever else the machine does hits both alike; what is printed is the
// median of the ratios of neighbouring blocks.
//
// A figure never fails a run: the machine decides it. An operation that goes
// wrong does.
package main
