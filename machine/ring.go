package machine

// ring is a FIFO of jobs that grows to its peak and then allocates no more.
type ring struct {
	buf        []*Job // its length is a power of two
	head, tail uint   // positions, taken modulo the length
}

func (r *ring) len() int { return int(r.tail - r.head) }

func (r *ring) peek() *Job { return r.buf[r.head&uint(len(r.buf)-1)] }

func (r *ring) push(j *Job) {
	if r.len() == len(r.buf) {
		r.grow()
	}
	r.buf[r.tail&uint(len(r.buf)-1)] = j
	r.tail++
}

func (r *ring) pop() *Job {
	i := r.head & uint(len(r.buf)-1)
	j := r.buf[i]
	r.buf[i] = nil
	r.head++
	return j
}

func (r *ring) grow() {
	bigger := make([]*Job, max(16, 2*len(r.buf)))
	n := r.len()
	for i := range n {
		bigger[i] = r.buf[(r.head+uint(i))&uint(len(r.buf)-1)]
	}
	r.buf, r.head, r.tail = bigger, 0, uint(n)
}
