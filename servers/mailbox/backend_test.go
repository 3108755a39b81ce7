//go:build linux

package mailbox

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"spillway/control"
	"spillway/machine"
	"spillway/servers"
	"spillway/workloads"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// served is a Backend behind a server, and a connection to it.
type served struct {
	*Backend
	t  *testing.T
	in *bufio.Reader
	net.Conn
	addr string
}

func serve(t *testing.T, c Config, change func(*servers.Config)) *served {
	t.Helper()
	b, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	config := servers.Default()
	config.Listen, config.Loops, config.Slots = []string{"127.0.0.1:0"}, 2, -1
	if change != nil {
		change(&config)
	}
	server, err := servers.New(b, control.Stack{Controller: control.None{}}, config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	s := &served{Backend: b, t: t, addr: strings.TrimPrefix(server.Addrs()[0], "tcp://")}
	s.Conn, s.in = s.dial()
	return s
}

func (s *served) dial() (net.Conn, *bufio.Reader) {
	s.t.Helper()
	conn, err := net.Dial("tcp", s.addr)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		s.t.Fatal(err)
	}
	return conn, bufio.NewReader(conn)
}

func (s *served) send(text string) {
	s.t.Helper()
	if _, err := io.WriteString(s.Conn, text); err != nil {
		s.t.Fatal(err)
	}
}

// reads reads exactly want.
func (s *served) reads(want string) {
	s.t.Helper()
	got := make([]byte, len(want))
	if n, err := io.ReadFull(s.in, got); err != nil || string(got) != want {
		s.t.Fatalf("got %q (%v), want %q", got[:n], err, want)
	}
}

// hangUp closes a connection such that the server notices at once: after an ordinary close it still writes its replies.
func hangUp(t *testing.T, c net.Conn) {
	t.Helper()
	if err := c.(*net.TCPConn).SetLinger(0); err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
}

// figure returns one of the counts.
func (s *served) figure(name string) (n uint64) {
	s.Backend.Stats(func(stat string, value uint64) bool {
		if stat == name {
			n = value
		}
		return true
	})
	return n
}

// await waits until a count is as wanted.
func (s *served) await(name string, want uint64) {
	s.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); s.figure(name) != want; <-time.After(time.Millisecond) {
		if time.Now().After(deadline) {
			s.t.Fatalf("%s is %d, want %d", name, s.figure(name), want)
		}
	}
}

// quick are mailboxes that are fetched in no time.
func quick() workloads.MailboxConfig {
	c := workloads.DefaultMailboxes()
	c.Latency, c.Rate = time.Millisecond, 1e12
	return c
}

func TestAnswersWithTheSize(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{Boxes: quick()}, nil)
	boxes, err := workloads.NewMailboxes(quick())
	if err != nil {
		t.Fatal(err)
	}
	var want [2]string
	sum := uint64(0)
	for i := range want {
		box, _ := boxes.Of([]byte("mail-" + strconv.Itoa(i)))
		want[i] = strconv.FormatInt(box.Bytes, 10)
		sum += uint64(box.Bytes)
	}
	s.send("get mail-0\r\n")
	s.reads(fmt.Sprintf("VALUE mail-0 0 %d\r\n%s\r\nEND\r\n", len(want[0]), want[0]))
	s.send("mg mail-1 v k O7\r\n")
	s.reads(fmt.Sprintf("VA %d kmail-1 O7\r\n%s\r\n", len(want[1]), want[1]))
	s.send("get mail-0 mail-1\r\n") // both are held together
	s.reads(fmt.Sprintf("VALUE mail-0 0 %d\r\n%s\r\nVALUE mail-1 0 %d\r\n%s\r\nEND\r\n", len(want[0]), want[0], len(want[1]), want[1]))
	s.send("get !5\r\nset a 0 0 1\r\nb\r\ndelete a\r\n")
	for _, want := range []string{"CLIENT_ERROR a key that begins with !", "SERVER_ERROR command set is not for a mailbox server", "SERVER_ERROR command delete"} {
		if line, err := s.in.ReadString('\n'); !strings.HasPrefix(line, want) {
			t.Errorf("got %q (%v), want %q", line, err, want)
		}
	}
	for name, want := range map[string]uint64{
		"cmd_get": 4, "wrong_keys": 1, "memory_held": 0, "mailboxes_open": 0, "mailboxes_open_max": 1, "memory_held_max": sum, "bytes_served": 2 * sum,
	} {
		if got := s.figure(name); got != want {
			t.Errorf("%s is %d, want %d", name, got, want)
		}
	}
}

// TestManyAreOpenAtOnce: a mailbox that is waited for has no loop, and its memory goes back when its client goes away.
func TestManyAreOpenAtOnce(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{Boxes: quick()}, nil)
	s.send(strings.Repeat("get !100000:60000ms\r\n", 50))
	s.await("mailboxes_open", 50)
	if got := s.figure("memory_held"); got != 5_000_000 || s.Held() != 5_000_000 {
		t.Errorf("%d bytes are held, want 5000000", got)
	}
	hangUp(t, s.Conn)
	s.await("mailboxes_open", 0)
	if got := s.figure("memory_held"); got != 0 {
		t.Errorf("%d bytes stay held", got)
	}
}

// TestPutBack: the youngest give back what they hold, one goes on, and all are served in the end. What it cost is counted.
func TestPutBack(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{
		Boxes: quick(), PutBack: 0.9, TakeAgain: 0.5,
		Memory: func() (float64, float64, error) { return 0, 0, errors.New("the test looks itself") },
	}, nil)
	s.send(strings.Repeat("get !1000000:1000ms\r\n", 4))
	s.await("memory_held", 4_000_000)
	s.look(time.Now(), 2_000_000, 4_000_000) // neither too much nor room for more
	if got := s.figure("put_back"); got != 0 {
		t.Fatalf("%d were put back, want none", got)
	}
	s.look(time.Now(), 4_000_000, 4_000_000) // 2 MB too much
	if got := s.figure("put_back"); got != 2 || s.Held() != 2_000_000 {
		t.Fatalf("%d were put back and %d bytes are held, want 2 and 2000000", got, s.Held())
	}
	s.look(time.Now(), 9_000_000, 4_000_000) // whoever else holds it: one request goes on
	if got := s.figure("put_back"); got != 3 || s.Held() != 1_000_000 {
		t.Fatalf("%d were put back and %d bytes are held, want 3 and 1000000", got, s.Held())
	}
	s.await("put_back_waiting", 3)
	s.look(time.Now(), 0, 4_000_000) // room for two
	s.await("memory_held", 2_000_000)
	if got := s.figure("put_back_waiting"); got != 1 {
		t.Fatalf("%d wait, want 1", got)
	}
	for range 4 {
		s.await("memory_held", 0)
		s.look(time.Now(), 9_000_000, 4_000_000) // no room, but somebody has to go on
	}
	s.reads(strings.Repeat("VALUE !1000000:1000ms 0 7\r\n1000000\r\nEND\r\n", 4))
	if bytes, lost := s.figure("put_back_bytes"), s.figure("put_back_lost_us"); bytes != 3_000_000 || lost == 0 || lost > 3_000_000 {
		t.Errorf("%d bytes were given back and %d us lost", bytes, lost)
	}
}

// TestPutBackAndGone: what has been put back is forgotten when its client goes.
func TestPutBackAndGone(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{
		Boxes: quick(), PutBack: 0.9, TakeAgain: 0.5,
		Memory: func() (float64, float64, error) { return 0, 0, errors.New("the test looks itself") },
	}, nil)
	other, _ := s.dial()
	if _, err := io.WriteString(other, "get !1000:60000ms\r\n"); err != nil { // the oldest, which goes on
		t.Fatal(err)
	}
	s.await("mailboxes_open", 1)
	s.send(strings.Repeat("get !1000:200ms\r\n", 5))
	s.await("mailboxes_open", 6)
	s.look(time.Now(), 9_000_000, 4_000_000)
	s.await("put_back_waiting", 5)
	hangUp(t, s.Conn)
	s.await("put_back_waiting", 0)
	s.await("memory_held", 1000)
	hangUp(t, other)
	s.await("memory_held", 0)
}

func TestRival(t *testing.T) {
	t.Parallel()
	s := serve(t, Config{Boxes: quick(), Rivals: []Rival{{Bytes: 3_000_000, After: time.Millisecond, For: 300 * time.Millisecond}, {Bytes: 1, After: time.Hour, For: 1}}}, nil)
	if got := s.figure("rival_bytes"); got != 0 {
		t.Errorf("a rival holds %d bytes before the first request", got)
	}
	s.send("get a\r\n")
	s.await("rival_bytes", 3_000_000)
	s.await("rival_bytes", 0)
}

// TestOnAModelledMachine: the work is that of the workload's own costs, and the machine dies of it.
func TestOnAModelledMachine(t *testing.T) {
	t.Parallel()
	costs, err := NewCosts(quick())
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, Config{Boxes: quick()}, func(c *servers.Config) {
		c.Model = &servers.Model{Machine: machine.Spec{Cores: 2, RAM: 3_000_000, Network: time.Microsecond}, Scale: 1, Costs: costs}
	})
	s.send("get !2000000:20ms\r\nget !\r\n")
	s.reads("VALUE !2000000:20ms 0 7\r\n2000000\r\nEND\r\nCLIENT_ERROR ")
	if got := s.figure("mailboxes_open_max"); got != 0 {
		t.Errorf("%d mailboxes were really open", got)
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	memory := func() (float64, float64, error) { return 0, 1, nil }
	for name, c := range map[string]Config{
		"no sizes":                {},
		"no memory":               {Boxes: quick(), PutBack: 0.9, TakeAgain: 0.5},
		"taken again, never back": {Boxes: quick(), TakeAgain: 0.5},
		"no distance":             {Boxes: quick(), PutBack: 0.5, TakeAgain: 0.5, Memory: memory},
		"beyond the limit":        {Boxes: quick(), PutBack: 1.5, TakeAgain: 0.5, Memory: memory},
		"a rival without bytes":   {Boxes: quick(), Rivals: []Rival{{For: 1}}},
		"a rival for no time":     {Boxes: quick(), Rivals: []Rival{{Bytes: 1}}},
	} {
		if _, err := New(c); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
