//go:build linux

package dataframe_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"spillway/clock"
	"spillway/control"
	"spillway/internal/frames"
	"spillway/machine"
	"spillway/profiles"
	"spillway/servers"
	"spillway/servers/dataframe"
	"spillway/servers/servertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func frame(t testing.TB, rows int) *frames.Frame {
	t.Helper()
	s := frames.DefaultShape()
	s.Rows = rows
	f, err := frames.Generate(s)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// answer computes a query apart from any server.
func answer(t testing.TB, f *frames.Frame, key string) string {
	t.Helper()
	q, err := frames.ParseQuery([]byte(key))
	if err != nil {
		t.Fatal(err)
	}
	text, err := frames.NewWorker(f).Answer(&q, nil)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// modelled has a server compute on a modelled machine with two cores, at the costs that are shipped.
func modelled(t testing.TB, rows int) func(*servers.Config) {
	t.Helper()
	table, err := profiles.LoadCosts("dataframe")
	if err != nil {
		t.Fatal(err)
	}
	costs, err := dataframe.NewCosts(rows, table.FrameTable(), true)
	if err != nil {
		t.Fatal(err)
	}
	return func(c *servers.Config) {
		c.Model = &servers.Model{Machine: machine.Spec{Cores: 2, Bus: machine.Bus{Total: 10e9, PerCore: 5e9}}, Scale: 10, Costs: costs}
	}
}

type server struct {
	addr    string
	backend *dataframe.Backend
	stop    func() error
}

// serve serves a frame until the test ends, or stop is called.
func serve(t testing.TB, c dataframe.Config, stack control.Stack, change func(*servers.Config)) server {
	t.Helper()
	if c.Parallelism == 0 {
		c.Parallelism = 2
	}
	backend, err := dataframe.New(c)
	if err != nil {
		t.Fatal(err)
	}
	addr, stop := servertest.Serve(t, backend, stack, change)
	return server{addr, backend, stop}
}

// ask sends a line, and holds the reply against what is wanted.
func ask(c *servertest.Client, line, want string) { c.Do(line+"\r\n", want) }

func plain() control.Stack { return control.Stack{Controller: control.None{}} }

func TestServer(t *testing.T) {
	t.Parallel()
	f := frame(t, 5000)
	for name, change := range map[string]func(*servers.Config){"host": nil, "model": modelled(t, 5000)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := servertest.Dial(t, serve(t, dataframe.Config{Frame: f}, plain(), change).addr)
			for k := range frames.NumKinds {
				key := k.String()
				if k == frames.Quantile {
					key += "/0.9"
				}
				want := answer(t, f, key)
				ask(c, "mg "+key+" v", fmt.Sprintf("VA %d\r\n%s\r\n", len(want), want))
				ask(c, "get "+key, fmt.Sprintf("VALUE %s 0 %d\r\n%s\r\nEND\r\n", key, len(want), want))
				ask(c, "mg "+key+"#again k", "HD k"+key+"#again\r\n")
			}
			ask(c, "get rows", "CLIENT_ERROR no operation: want max[/COLUMN], mean[/COLUMN], quantile/P[/COLUMN], corr[/COLUMN/COLUMN], vwap, mid[/WINDOW], "+
				"kmeans[/K/ITERATIONS], ppo[/FAST/SLOW/SIGNAL], decompose[/PERIOD/FRACTION/DELTA], decay[/PERIOD] or ad; a # begins a comment\r\n")
			ask(c, "mg mid/99999 v", "CLIENT_ERROR window 99999: there are 5000 rows\r\n")
			ask(c, "mg kmeans/64/1000000 v", "CLIENT_ERROR number of iterations \"1000000\": want a whole number from 1 to 1000\r\n")
			ask(c, "mg decompose/2501/0.1/1 v", "CLIENT_ERROR period 2501: there must be two of it, and there are 5000 rows\r\n")
			ask(c, "mg corr/close/price v", "CLIENT_ERROR column \"price\": there are open, high, low, close, volume and return\r\n")
			ask(c, "get max mean", "CLIENT_ERROR one get asks for one operation here: pipeline several\r\n")
			counts := map[string]string{"max": "5", "decompose": "4", "ad": "3", "get": ""} // what is no operation is in the first
			if change != nil {
				counts = map[string]string{"max": "3", "decompose": "3", "ad": "3", "get": ""} // what has no cost does not come to the machine
			}
			for class, want := range counts {
				if got := c.Stats("spillway")["arrivals_"+class]; got != want {
					t.Errorf("%s: %q arrivals of %s, want %q", name, got, class, want)
				}
			}
			if got := c.Stats("")["frame_rows"]; got != "5000" {
				t.Errorf("%s rows", got)
			}
		})
	}
}

// TestOtherCommands: a data frame is read, and not written.
func TestOtherCommands(t *testing.T) {
	t.Parallel()
	c := servertest.Dial(t, serve(t, dataframe.Config{Frame: frame(t, 100)}, plain(), nil).addr)
	ask(c, "set max 0 0 1\r\nx", "SERVER_ERROR command set is not for a data frame; ask with get KEY or mg KEY v, the key being an operation\r\n")
	ask(c, "delete max", "SERVER_ERROR command delete is not for a data frame; ask with get KEY or mg KEY v, the key being an operation\r\n")
}

// TestFullReplies: all values of a vector are sent, more than fit in one buffer.
func TestFullReplies(t *testing.T) {
	t.Parallel()
	f := frame(t, 20_000)
	c := servertest.Dial(t, serve(t, dataframe.Config{Frame: f, Full: true}, plain(), nil).addr)
	for range 3 { // pipelined, so that memory that a reply refers to is not used again too early
		if _, err := fmt.Fprint(c, "mg mid/2 v\r\nmg ad v\r\n"); err != nil {
			t.Fatal(err)
		}
	}
	w := frames.NewWorker(f)
	w.Full = true
	for i := range 6 {
		q := frames.Standard(frames.AD)
		if i%2 == 0 {
			q = frames.Query{Kind: frames.Mid, Window: 2}
		}
		want, err := w.Answer(&q, nil)
		if err != nil {
			t.Fatal(err)
		}
		head, err := c.In.ReadString('\n')
		if err != nil || head != fmt.Sprintf("VA %d\r\n", len(want)) {
			t.Fatalf("%q, %v; want %d bytes", head, err, len(want))
		}
		got, err := c.In.ReadString('\n')
		if err != nil || strings.TrimSuffix(got, "\r\n") != string(want) || strings.Count(got, " ") != f.Rows() {
			t.Fatalf("reply %d: %d bytes, %v; want %d", i, len(got), err, len(want))
		}
	}
}

// section is a memory section with one place, which writes down who came.
type section struct {
	inside, entered int
	waiting         *control.Parked
}

func (s *section) Enter(now clock.Instant, r *control.Request, m control.Mode) control.Decision {
	s.entered++
	switch {
	case s.inside == 0:
		s.inside++
		return control.Decision{Verdict: control.Admit}
	case m == control.Try:
		return control.Decision{Verdict: control.Reject, Reason: control.Memory}
	}
	s.waiting.Push(now, r)
	return control.Decision{Verdict: control.Wait}
}

func (s *section) Leave(now clock.Instant, _ *control.Request, out []control.Action) []control.Action {
	if s.waiting.Len() == 0 {
		s.inside--
		return out
	}
	return append(out, control.Action{Kind: control.Resume, Request: s.waiting.Pop(now)})
}

func (s *section) Withdraw(_ clock.Instant, id uint64, out []control.Action) (bool, []control.Action) {
	return s.waiting.Withdraw(id), out
}

// TestMemorySection: of many decompositions at once one is let in at a time, others are dropped or wait; a maximum has nothing to do with it. In the end
// nobody is inside, whether clients have stayed for their replies or not.
func TestMemorySection(t *testing.T) {
	t.Parallel()
	f := frame(t, 60_000)
	for name, mode := range map[string]control.Mode{"try": control.Try, "wait": control.WaitMode} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			memory := &section{waiting: control.NewParked()}
			s := serve(t, dataframe.Config{Frame: f, Parallelism: 4}, control.Stack{Controller: control.None{}, Memory: memory, Mode: mode}, nil)
			gone := servertest.Dial(t, s.addr)
			if _, err := fmt.Fprint(gone, strings.Repeat("mg decompose/10/0.05/1 v\r\nmg ad v\r\nmg decay v\r\n", 20)); err != nil {
				t.Fatal(err)
			}
			if _, err := gone.In.Peek(1); err != nil {
				t.Fatal(err)
			}
			_ = gone.Close()
			c := servertest.Dial(t, s.addr)
			const n = 20
			if _, err := fmt.Fprint(c, strings.Repeat("mg ad v\r\nmg max v\r\n", n)); err != nil {
				t.Fatal(err)
			}
			dropped := 0
			for i := range 2 * n {
				head, err := c.In.ReadString('\n')
				switch {
				case err != nil:
					t.Fatal(err)
				case head == "SERVER_ERROR overloaded memory\r\n" && i%2 == 0 && mode == control.Try:
					dropped++
				case strings.HasPrefix(head, "VA "):
					if _, err := c.In.ReadString('\n'); err != nil {
						t.Fatal(err)
					}
				default:
					t.Fatalf("reply %d: %q", i, head)
				}
			}
			if err := s.stop(); err != nil {
				t.Error(err)
			}
			if memory.inside != 0 || memory.waiting.Len() != 0 || memory.entered < n {
				t.Errorf("%d are inside, %d wait; %d came, %d of ours were dropped", memory.inside, memory.waiting.Len(), memory.entered, dropped)
			}
		})
	}
}

// TestDropsLeaveNothingBehind: memory does not grow over a million drops, and no slot stays taken.
func TestDropsLeaveNothingBehind(t *testing.T) {
	drops := 1_000_000
	if testing.Short() || raceEnabled {
		drops = 60_000
	}
	full := &section{inside: 1, waiting: control.NewParked()}
	s := serve(t, dataframe.Config{Frame: frame(t, 1000)}, control.Stack{Memory: full, Mode: control.Try}, func(c *servers.Config) { c.Loops = 1 })
	asked := servertest.Drops(t, s.addr, "mg decay v\r\n", "SERVER_ERROR overloaded memory\r\n", drops)
	c := servertest.Dial(t, s.addr)
	got := c.Stats("spillway")
	ask(c, "mg max", "HD\r\n")
	if err := s.stop(); err != nil {
		t.Error(err)
	}
	if got["shed_memory"] != fmt.Sprint(asked) || got["in_service"] != "0" || full.entered != asked {
		t.Errorf("of %d, %s were dropped; %d came to the section, and %s are in service", asked, got["shed_memory"], full.entered, got["in_service"])
	}
	if n := s.backend.BytesMoved(); n != 0 {
		t.Errorf("what was dropped has moved %d bytes", n)
	}
}

// TestBytesMoved: operations that are bound by memory account for what they move, and no others do.
func TestBytesMoved(t *testing.T) {
	t.Parallel()
	s := serve(t, dataframe.Config{Frame: frame(t, 10_000)}, plain(), nil)
	c := servertest.Dial(t, s.addr)
	for _, tc := range []struct {
		key  string
		want uint64
	}{{"max", 0}, {"ppo", 0}, {"decay", 240_000}, {"ad", 800_000}, {"decompose/10/0.01/1", 1_360_000}} {
		ask(c, "mg "+tc.key, "HD\r\n")
		if got := s.backend.BytesMoved(); got != tc.want {
			t.Errorf("after %s: %d bytes, want %d", tc.key, got, tc.want)
		}
	}
	if got := c.Stats("")["bytes_moved"]; got != "1360000" {
		t.Errorf("stats say %s", got)
	}
}

// TestEndHalfway: a server that is stopped does not wait for the end of what takes seconds.
func TestEndHalfway(t *testing.T) {
	t.Parallel()
	s := serve(t, dataframe.Config{Frame: frame(t, 400_000)}, plain(), func(c *servers.Config) { c.Grace = time.Millisecond })
	c := servertest.Dial(t, s.addr)
	if _, err := fmt.Fprint(c, strings.Repeat("mg kmeans/10/1000 v\r\n", 20)); err != nil {
		t.Fatal(err)
	}
	other := servertest.Dial(t, s.addr)
	for other.Stats("spillway")["in_service"] == "0" {
	}
	if err := s.stop(); err != nil {
		t.Error(err)
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	if _, err := dataframe.New(dataframe.Config{Parallelism: 1}); err == nil {
		t.Error("no frame, and no error")
	}
	if _, err := dataframe.New(dataframe.Config{Frame: frame(t, 20)}); err == nil {
		t.Error("no workers, and no error")
	}
	table, err := profiles.LoadCosts("dataframe")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := dataframe.NewCosts(20, table.FrameTable(), false); err == nil || !strings.Contains(err.Error(), "this machine has none") {
		t.Errorf("a machine without a bus: %v", err)
	}
	costs := table.FrameTable()
	delete(costs, "ad")
	if _, err := dataframe.NewCosts(20, costs, true); err == nil || err.Error() != "there is no cost of the operation ad" {
		t.Errorf("a table without ad: %v", err)
	}
}
