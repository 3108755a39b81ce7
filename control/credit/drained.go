package credit

// drained is a list of clients, linked through them. A client is on one list at most.
type drained struct{ first, last *client }

func (l *drained) pushFront(c *client) {
	l.claim(c)
	c.next = l.first
	if l.first != nil {
		l.first.prev = c
	} else {
		l.last = c
	}
	l.first = c
}

func (l *drained) pushBack(c *client) {
	l.claim(c)
	c.prev = l.last
	if l.last != nil {
		l.last.next = c
	} else {
		l.first = c
	}
	l.last = c
}

// claim makes c a member. To be on a list twice would grant one client the credits of two.
func (l *drained) claim(c *client) {
	if c.list != nil {
		panic("credit: a drained client is on a list already")
	}
	c.list = l
}

func (l *drained) remove(c *client) {
	if c.prev != nil {
		c.prev.next = c.next
	} else {
		l.first = c.next
	}
	if c.next != nil {
		c.next.prev = c.prev
	} else {
		l.last = c.prev
	}
	c.list, c.prev, c.next = nil, nil, nil
}
