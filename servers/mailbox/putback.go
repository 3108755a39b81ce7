//go:build linux

package mailbox

import "time"

// watchEvery is how often memory is looked at for putting work back.
const watchEvery = 50 * time.Millisecond

// watch puts work back and takes it again, until Close.
func (b *Backend) watch() {
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	for {
		select {
		case <-b.closing:
			return
		case now := <-ticker.C:
			// A reading that fails is no reason to throw work away, nor to take more on.
			if used, limit, err := b.config.Memory(); err == nil {
				b.look(now, used, limit)
			}
		}
	}
}

// look puts back what is too much, or takes again what there is room for.
func (b *Backend) look(now time.Time, used, limit float64) {
	enough := b.config.TakeAgain * limit
	if used >= b.config.PutBack*limit {
		b.putBack(now, used-enough)
	}
	b.takeAgain(enough - used)
}

// putBack frees so many bytes, or all but what the oldest request holds: something must go on, or nothing would ever be done.
func (b *Backend) putBack(now time.Time, bytes float64) {
	var freed [][]byte
	b.mu.Lock()
	for bytes > 0 && b.mu.fetching.n > 1 {
		j := b.mu.fetching.last // it has the least to lose
		b.mu.fetching.remove(j)
		bytes -= float64(j.box.Bytes)
		b.mu.backs.count++
		b.mu.backs.bytes += uint64(j.box.Bytes)
		b.mu.backs.lost += now.Sub(j.since)
		j.state = backed
		freed = append(freed, b.release(j))
	}
	b.mu.Unlock()
	for _, m := range freed {
		give(m)
	}
}

// takeAgain lets requests begin anew for which there is room, the oldest first. One does in any case when no other holds anything.
func (b *Backend) takeAgain(room float64) {
	var ready []*job
	b.mu.Lock()
	for j := b.mu.waiting.first; j != nil && (float64(j.box.Bytes) <= room || b.mu.open+len(ready) == 0); j = b.mu.waiting.first {
		b.mu.waiting.remove(j)
		j.state = again
		room -= float64(j.box.Bytes)
		ready = append(ready, j)
	}
	b.mu.Unlock()
	for _, j := range ready {
		j.call.Resume()
	}
}

// startRivals begins the time of rivals.
func (b *Backend) startRivals() {
	for _, r := range b.config.Rivals {
		b.running.Go(func() { b.rivalry(r) })
	}
}

func (b *Backend) rivalry(r Rival) {
	timer := time.NewTimer(r.After)
	defer timer.Stop()
	select {
	case <-b.closing:
		return
	case <-timer.C:
	}
	m := b.take(r.Bytes)
	b.rival.Add(r.Bytes)
	timer.Reset(r.For)
	select {
	case <-b.closing:
	case <-timer.C:
	}
	give(m)
	b.rival.Add(-r.Bytes)
}

// jobList is a list of jobs, each in one list at most.
type jobList struct {
	first, last *job
	n           int
}

type jobLinks struct {
	in         *jobList
	prev, next *job
}

func (l *jobList) push(j *job) {
	j.in, j.prev, j.next = l, l.last, nil
	if l.last == nil {
		l.first = j
	} else {
		l.last.next = j
	}
	l.last = j
	l.n++
}

// remove takes j out, if it is in this list.
func (l *jobList) remove(j *job) {
	if j.in != l {
		return
	}
	if j.prev == nil {
		l.first = j.next
	} else {
		j.prev.next = j.next
	}
	if j.next == nil {
		l.last = j.prev
	} else {
		j.next.prev = j.prev
	}
	j.jobLinks = jobLinks{}
	l.n--
}
