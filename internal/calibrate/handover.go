//go:build linux

package calibrate

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"spillway/clock"
)

// Duration is a time that was measured many times over.
type Duration struct {
	Best   time.Duration `json:"best_ns"`
	Median time.Duration `json:"median_ns"`
	P99    time.Duration `json:"p99_ns"`
	Spread float64       `json:"spread"` // by how much of the median the middle half of the times differ
	Count  int           `json:"count"`
}

// summary makes a Duration of sorted times, nil of none.
func summary(sorted []time.Duration) *Duration {
	n := len(sorted)
	if n == 0 {
		return nil
	}
	d := &Duration{Best: sorted[0], Median: sorted[n/2], P99: sorted[n*99/100], Count: n}
	if d.Median > 0 {
		d.Spread = float64(sorted[n-1-n/4]-sorted[n/4]) / float64(d.Median)
	}
	return d
}

// handOvers are how many a block of them is timed over, since one is shorter than a look at the clock.
const handOvers = 200

// lineHandOver measures how long it takes until a word that one processor writes is seen by another that spins on it: the least that a lock's
// hand-over can take. It is nil with fewer than two processors.
func lineHandOver(ctx context.Context, clk clock.Clock, cpus []int, span time.Duration) (*Duration, error) {
	if len(cpus) < 2 {
		return nil, nil
	}
	var turn struct {
		_ [64]byte
		n atomic.Uint64
		_ [64]byte
	}
	var quit atomic.Bool
	var wg sync.WaitGroup
	failed := make(chan error, 2)
	var times []time.Duration
	// The thread that answers an odd number with the even one after it.
	wg.Go(func() {
		err := pin(cpus[1])
		failed <- err
		for err == nil && !quit.Load() {
			if n := turn.n.Load(); n&1 == 1 {
				turn.n.Store(n + 1)
			}
		}
	})
	wg.Go(func() {
		defer quit.Store(true)
		err := pin(cpus[0])
		failed <- err
		if err != nil {
			return
		}
		n := uint64(0)
		for end := clk.Now().Add(span); clk.Now() < end && ctx.Err() == nil; {
			began := clk.Now()
			for range handOvers / 2 {
				n += 2
				turn.n.Store(n - 1)
				for turn.n.Load() != n {
					if quit.Load() {
						return
					}
				}
			}
			times = append(times, clk.Now().Sub(began)/handOvers)
		}
	})
	err := errors.Join(<-failed, <-failed)
	if err != nil {
		quit.Store(true)
	}
	wg.Wait()
	return summary(sorted(times)), errors.Join(err, ctx.Err())
}

// lockHandOver measures how long it takes from unlocking a lock that another goroutine waits for, parked, until that one runs.
func lockHandOver(ctx context.Context, clk clock.Clock, span time.Duration) (*Duration, error) {
	var times []time.Duration
	// Two goroutines pass a token through channels, which park and wake like every lock of Go.
	there, back := make(chan clock.Instant), make(chan clock.Instant)
	var wg sync.WaitGroup
	wg.Go(func() {
		for given := range there {
			times = append(times, clk.Now().Sub(given))
			back <- clk.Now()
		}
		close(back)
	})
	for end := clk.Now().Add(span); clk.Now() < end && ctx.Err() == nil; {
		there <- clk.Now()
		given := <-back
		// Only one of them appends at a time: the other waits for the token.
		times = append(times, clk.Now().Sub(given))
	}
	close(there)
	wg.Wait()
	return summary(sorted(times)), ctx.Err()
}

// loopback measures a round trip of one small message between two threads over TCP on the loopback device, each blocked in the kernel meanwhile, as
// a client and a server are that have nothing else to do.
func loopback(ctx context.Context, clk clock.Clock, cpus []int, span time.Duration) (*Duration, error) {
	a, b, err := connected()
	if err != nil {
		return nil, fmt.Errorf("a connection over the loopback device: %w", err)
	}
	defer unix.Close(a)
	var wg sync.WaitGroup
	var echoed error
	wg.Go(func() {
		defer unix.Close(b)
		if echoed = pin(cpus[len(cpus)-1]); echoed == nil {
			echo(b)
		}
	})
	var times []time.Duration
	failed := make(chan error, 1)
	go func() {
		err := pin(cpus[0])
		var message [32]byte
		for end := clk.Now().Add(span); err == nil && clk.Now() < end && ctx.Err() == nil; {
			began := clk.Now()
			if err = exchange(a, message[:]); err == nil {
				times = append(times, clk.Now().Sub(began))
			}
		}
		failed <- err
	}()
	err = <-failed
	_ = unix.Shutdown(a, unix.SHUT_RDWR)
	wg.Wait()
	return summary(sorted(times)), errors.Join(err, echoed, ctx.Err())
}

// exchange sends a message and waits for it to come back.
func exchange(fd int, message []byte) error {
	if _, err := unix.Write(fd, message); err != nil {
		return fmt.Errorf("sending over the loopback device: %w", err)
	}
	n, err := read(fd, message)
	switch {
	case err != nil:
		return fmt.Errorf("receiving over the loopback device: %w", err)
	case n != len(message):
		return fmt.Errorf("%d bytes came back of %d", n, len(message))
	}
	return nil
}

// read reads, and goes on where a signal of the runtime interrupts it: a descriptor with a time limit is not read again by itself.
func read(fd int, b []byte) (n int, err error) {
	for {
		if n, err = unix.Read(fd, b); err != unix.EINTR {
			return n, err
		}
	}
}

// echo sends back what it is sent, until the connection ends.
func echo(fd int) {
	var buf [64]byte
	for {
		n, err := read(fd, buf[:])
		if err != nil || n == 0 {
			return
		}
		if _, err := unix.Write(fd, buf[:n]); err != nil {
			return
		}
	}
}

// loopbackPatience is how long one message may take before the device is taken to be out of order.
const loopbackPatience = 2

// connected returns both ends of a TCP connection, as blocking descriptors.
func connected() (a, b int, err error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return 0, 0, err
	}
	defer l.Close()
	there, err := net.Dial("tcp4", l.Addr().String())
	if err != nil {
		return 0, 0, err
	}
	defer there.Close()
	here, err := l.Accept()
	if err != nil {
		return 0, 0, err
	}
	defer here.Close()
	if a, err = blocking(there); err != nil {
		return 0, 0, err
	}
	if b, err = blocking(here); err != nil {
		_ = unix.Close(a)
		return 0, 0, err
	}
	return a, b, nil
}

// blocking returns a descriptor of its own for a connection, which blocks and sends small messages at once.
func blocking(c net.Conn) (fd int, err error) {
	f, err := c.(*net.TCPConn).File()
	if err != nil {
		return 0, err
	}
	defer f.Close()
	if fd, err = unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0); err != nil {
		return 0, err
	}
	runtime.KeepAlive(f)
	timeout := unix.Timeval{Sec: loopbackPatience}
	err = errors.Join(
		unix.SetNonblock(fd, false),
		unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1),
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout))
	if err != nil {
		_ = unix.Close(fd)
		return 0, err
	}
	return fd, nil
}
