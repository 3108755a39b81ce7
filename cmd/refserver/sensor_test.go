package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// asker asks one server for things.
type asker struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
}

func dialServer(t *testing.T, addr string) *asker {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return &asker{t, conn, bufio.NewReader(conn)}
}

// stats returns an answer to stats.
func (a *asker) stats(topic string) map[string]string {
	a.t.Helper()
	if _, err := io.WriteString(a.conn, "stats "+topic+"\r\n"); err != nil {
		a.t.Fatal(err)
	}
	rows := map[string]string{}
	for {
		line, err := a.in.ReadString('\n')
		if err != nil {
			a.t.Fatal(err)
		}
		words := strings.SplitN(strings.TrimSpace(line), " ", 3)
		if len(words) < 3 {
			if words[0] != "END" {
				rows["error"] = words[0]
			}
			return rows
		}
		rows[words[1]] = words[2]
	}
}

// stream has the server stream bytes in the memory section, and waits until it has.
func (a *asker) stream(bytes int) {
	a.t.Helper()
	if _, err := fmt.Fprintf(a.conn, "mg e0,s%d,x0 O1\r\n", bytes); err != nil {
		a.t.Fatal(err)
	}
	if line, err := a.in.ReadString('\n'); err != nil {
		a.t.Fatal(line, err)
	}
}

// TestSensorHasAPeriod: what the memory section learns of traffic is as old as the sensor's period, and the section's own follows it, ten to one. Read
// directly, the server's account is never old, and the section keeps the period that it was set to.
func TestSensorHasAPeriod(t *testing.T) {
	t.Parallel()
	const sensed, set = 20 * time.Millisecond, 10 * time.Millisecond
	for _, tc := range []struct {
		args []string
		want time.Duration // at least, of the section's period
		most time.Duration
	}{
		{[]string{"--sensor", "accounted", "--sensor-period", sensed.String()}, 10 * sensed * 9 / 10, time.Hour},
		{[]string{"--sensor", "accounted"}, set, set},
	} {
		args := append([]string{
			"--listen", "127.0.0.1:0", "-t", "1", "--stream-buffer", "1MiB", "--control", "none", "--control-set", "section=try", "--control-set", "period=" + set.String(),
		}, tc.args...)
		cmd, addrs, _ := launch(t, "synthetic", args...)
		a := dialServer(t, addrs[0])
		got := time.Duration(0)
		for end := time.Now().Add(20 * time.Second); time.Now().Before(end); {
			a.stream(100_000)
			us, err := strconv.ParseFloat(a.stats("spillway")["meter_memsem_period_us"], 64)
			if err != nil {
				t.Fatal(err)
			}
			if got = time.Duration(us * 1e3); got >= tc.want {
				break
			}
		}
		if got < tc.want || got > tc.most {
			t.Errorf("%v: the section's period is %v, want %v to %v", tc.args, got, tc.want, tc.most)
		}
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
}

// TestServerTracesItself: stats trace has what the server accounts for, on the clock of the machine, and goes on where the last answer stopped.
func TestServerTracesItself(t *testing.T) {
	t.Parallel()
	cmd, addrs, _ := launch(t, "synthetic", "--listen", "127.0.0.1:0", "-t", "1", "--stream-buffer", "1MiB", "--trace-period", "1ms")
	a := dialServer(t, addrs[0])
	a.stream(50_000_000)
	moved, next := 0.0, 0
	for end := time.Now().Add(20 * time.Second); moved == 0 && time.Now().Before(end); {
		rows := a.stats("trace " + strconv.Itoa(next))
		if rows["column_0"] != "membw bytes_per_s" {
			t.Fatalf("%v", rows)
		}
		last := int64(0)
		for i := 0; rows["points_"+strconv.Itoa(i)] != ""; i++ {
			for _, one := range strings.Split(strings.TrimSuffix(rows["points_"+strconv.Itoa(i)], ";"), ";") {
				var at int64
				var column int
				var value float64
				if n, err := fmt.Sscan(one, &at, &column, &value); n != 3 || at < last-int64(time.Second) {
					t.Fatalf("%q after %d: %v", one, last, err)
				}
				if last = at; column == 0 {
					moved += value
				}
			}
		}
		was := next
		if next, _ = strconv.Atoi(rows["next"]); next < was {
			t.Fatalf("next went from %d to %d", was, next)
		}
	}
	if moved == 0 {
		t.Error("a stream of 50 MB is not in the trace")
	}
	if got := a.stats("trace nonsense")["next"]; got == "" || got == "0" {
		t.Errorf("what is not a number means from the beginning: %q", got)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	_, addrs, _ = launch(t, "synthetic", "--listen", "127.0.0.1:0", "-t", "1", "--stream-buffer", "1MiB")
	if rows := dialServer(t, addrs[0]).stats("trace 0"); rows["error"] != "ERROR" {
		t.Errorf("without a trace: %v", rows)
	}
}
