package connections

import "slices"

// owner is whose a connection is: of a host, as long as nobody knows better.
type owner struct {
	name                  string
	authenticated, exempt bool
}

// table has the connections of each owner, the oldest first.
type table map[owner][]*conn

func (t table) add(c *conn, o owner) {
	c.owner = o
	t[o] = append(t[o], c)
}

func (t table) remove(c *conn) {
	left := slices.DeleteFunc(t[c.owner], func(other *conn) bool { return other == c })
	if len(left) == 0 {
		delete(t, c.owner)
		return
	}
	t[c.owner] = left
}

// victim is who gives way to a new connection:
//
//	connections                                  gives way
//	some of hosts that nobody is known from      the oldest of the host that has the most
//	all authenticated, an owner has more than 1  the oldest of the owner that has the most
//	one of each owner, or only exempt ones       nobody: the new one is closed
func (t table) victim() (*conn, string) {
	var most owner
	for o, all := range t {
		switch {
		case o.exempt:
		case len(t[most]) == 0, most.authenticated && !o.authenticated,
			most.authenticated == o.authenticated && (len(all) > len(t[most]) || len(all) == len(t[most]) && o.name < most.name):
			most = o
		}
	}
	all := t[most]
	switch {
	case len(all) > 0 && !most.authenticated:
		return all[0], "Unauthenticated"
	case len(all) > 1:
		return all[0], "Authenticated"
	}
	return nil, "New"
}
