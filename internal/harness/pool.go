//go:build linux

package harness

import "context"

// Pool bounds how many points several runs simulate at the same time, all together.
type Pool chan struct{}

// NewPool returns a pool for so many points.
func NewPool(points int) Pool { return make(Pool, points) }

// enter waits for room; false when ctx ended first. Without a pool there always is.
func (p Pool) enter(ctx context.Context) bool {
	if p == nil {
		return true
	}
	select {
	case p <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (p Pool) leave() {
	if p != nil {
		<-p
	}
}

func (c *Config) handedOut() {
	if c.HandedOut != nil {
		c.HandedOut()
	}
}
