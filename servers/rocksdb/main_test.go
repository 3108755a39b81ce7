//go:build linux && cgo && !norocksdb

package rocksdb

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"spillway/control"
	"spillway/internal/memproto"
	"spillway/servers"
	"spillway/servers/servertest"
)

func TestMain(m *testing.M) {
	if os.Getenv(benchEnv) != "" {
		if err := benchServer(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// testConfig is that of a small store in a folder of the test.
func testConfig(t testing.TB) Config {
	t.Helper()
	c := Default()
	c.Dir, c.Create, c.Workers = t.TempDir(), true, 2
	c.BlockCache, c.WriteBuffer = 8<<20, 4<<20
	return c
}

func openBackend(t testing.TB, c Config) *Backend {
	t.Helper()
	b, err := Open(c)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// serve answers on the store of c until stop is called, or the test ends. What has been pinned must then have been given back, each once: a
// second time would have panicked.
func serve(t testing.TB, c Config, stack control.Stack, change func(*servers.Config)) (b *Backend, addr string, stop func()) {
	t.Helper()
	b = openBackend(t, c)
	addr, end := servertest.Serve(t, b, stack, func(front *servers.Config) {
		front.Slots, front.MaxItem, front.Grace = 4, c.ItemLimit(), 2*time.Second
		if change != nil {
			change(front)
		}
	})
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		if err := end(); err != nil {
			t.Error(err)
		}
		if ever, now := b.pinned(); now != 0 {
			t.Errorf("%d of %d values are still pinned", now, ever)
		}
		if taken, freed := b.pins.counts(); taken != freed {
			t.Errorf("replies had %d values and gave %d back", taken, freed)
		}
	}
	t.Cleanup(stop)
	return b, addr, stop
}

// set stores a value.
func set(c *servertest.Client, key, value string) {
	c.Do(fmt.Sprintf("set %s 0 0 %d\r\n%s\r\n", key, len(value), value), "STORED\r\n")
}

// value returns the text of a get's reply with one value.
func valueReply(key, value string) string {
	return fmt.Sprintf("VALUE %s 0 %d\r\n%s\r\nEND\r\n", key, len(value), value)
}

// direct executes commands without a server.
type direct struct {
	*Backend
	t testing.TB
	p memproto.Parser
	w memproto.Writer
}

func newDirect(t testing.TB, c Config) *direct {
	t.Helper()
	b := openBackend(t, c)
	t.Cleanup(func() {
		if ever, now := b.pinned(); now != 0 {
			t.Errorf("%d of %d values are still pinned", now, ever)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return &direct{Backend: b, t: t, p: memproto.Parser{MaxItem: c.ItemLimit()}}
}

// do executes the commands in text and returns the replies.
func (d *direct) do(text string) string {
	d.t.Helper()
	var out strings.Builder
	for buf := []byte(text); len(buf) > 0; {
		var c memproto.Command
		n, s := d.p.Parse(buf, &c)
		if s != memproto.Ready {
			d.t.Fatalf("%.60q: status %v %s", buf, s, c.Error)
		}
		buf = buf[n:]
		if err := d.Do(&c, &d.w); err != nil {
			d.w.Fail("SERVER_ERROR " + err.Error())
		}
		d.w.End(&c, memproto.Extras{})
		at := 0
		for _, ref := range d.w.Refs {
			out.Write(d.w.Buf[at:ref.At])
			out.Write(ref.Data)
			at = ref.At
		}
		out.Write(d.w.Buf[at:])
		d.w.Reset()
	}
	return out.String()
}

func (d *direct) want(text, want string) {
	d.t.Helper()
	if got := d.do(text); got != want {
		d.t.Errorf("%.100q: got %.300q, want %.300q", text, got, want)
	}
}
