//go:build linux

package graph_test

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"spillway/control"
	"spillway/internal/graphdb"
	"spillway/machine"
	"spillway/servers"
	"spillway/servers/graph"
	"spillway/servers/servertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// square is 0-1-2-3-0 with a diagonal 0-2, and 4 alone.
func square(t testing.TB) *graphdb.Graph {
	t.Helper()
	g, err := graphdb.Build([]uint8{0, 1, 0, 1, 0}, []graphdb.Edge{{From: 0, To: 1}, {From: 1, To: 2}, {From: 2, To: 3}, {From: 3, To: 0}, {From: 0, To: 2, Type: 1}})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// serve answers queries about g until the test ends, and returns where.
func serve(t testing.TB, g *graphdb.Graph, change func(*servers.Config)) (addr string) {
	t.Helper()
	backend, err := graph.New(graph.Config{Graph: g, Parallelism: 2})
	if err != nil {
		t.Fatal(err)
	}
	addr, _ = servertest.Serve(t, backend, control.Stack{}, func(c *servers.Config) {
		c.Slots = 2
		if change != nil {
			change(c)
		}
	})
	return addr
}

func dial(t testing.TB, addr string) net.Conn { return servertest.Dial(t, addr).Conn }

func TestServer(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*servers.Config){
		"host": nil,
		"model": func(c *servers.Config) {
			c.Model = &servers.Model{Machine: machine.Spec{Cores: 2}, Scale: 10, Costs: graph.NewCosts(square(t), graphdb.MeasuredCosts())}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := dial(t, serve(t, square(t), change))
			replies := bufio.NewReader(c)
			for _, exchange := range []struct{ ask, want string }{
				{"get n/0", "VALUE n/0 0 7\r\n3 1 2 3\r\nEND\r\n"},
				{"mg n/0/1 v", "VA 3\r\n1 2\r\n"},
				{"mg t/0 v", "VA 1\r\n2\r\n"},
				{"mg 2/1/1 v", "VA 1\r\n1\r\n"},
				{"mg p/1/3/6 v", "VA 1\r\n2\r\n"},
				{"mg p/1/4/6 v", "VA 2\r\n-1\r\n"},
				{"mg r/4 v", "VA 3\r\n4=1\r\n"},
				{"get n/5", "CLIENT_ERROR there is no vertex 5: they are 0 to 4\r\n"},
				{"get n/99999999999999999999", "CLIENT_ERROR vertex \"99999999999999999999\": want a whole number from 0 to 268435455\r\n"},
				{"get p/0/1/999999999", "CLIENT_ERROR number of hops \"999999999\": want a whole number from 1 to 64\r\n"},
				{"mg r/0/1e-300 v", "CLIENT_ERROR accuracy \"1e-300\": want a number from 1e-08 to 1\r\n"},
				{"mg 2/0/NaN v", "CLIENT_ERROR label \"NaN\": want a whole number from 0 to 255\r\n"},
				{"mg x v", "CLIENT_ERROR no query: want n/VERTEX[/TYPE], 2/VERTEX/LABEL, p/VERTEX/VERTEX/HOPS, t/VERTEX or r/VERTEX[/ACCURACY]; a # begins a comment\r\n"},
				{"get n/0 n/1", "CLIENT_ERROR one get asks one query here: pipeline several\r\n"},
			} {
				if _, err := fmt.Fprintf(c, "%s\r\n", exchange.ask); err != nil {
					t.Fatal(err)
				}
				var got strings.Builder
				for range strings.Count(exchange.want, "\n") {
					line, err := replies.ReadString('\n')
					if err != nil {
						t.Fatal(err)
					}
					got.WriteString(line)
				}
				if got.String() != exchange.want {
					t.Errorf("%s: got %q, want %q", exchange.ask, got.String(), exchange.want)
				}
			}
		})
	}
}

// TestClassesAreTheKindsOfQuery: without rules the server counts by the kind of query; on a modelled machine too.
func TestClassesAreTheKindsOfQuery(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*servers.Config){
		"host": nil,
		"model": func(c *servers.Config) {
			c.Model = &servers.Model{Machine: machine.Spec{Cores: 2}, Scale: 10, Costs: graph.NewCosts(square(t), graphdb.MeasuredCosts())}
		},
	} {
		c := dial(t, serve(t, square(t), change))
		replies := bufio.NewReader(c)
		if _, err := fmt.Fprint(c, "mg n/0 v\r\nmg t/0 v\r\nmg t/1 v\r\nmg 2/1/1 v\r\nmg p/1/3/6 v\r\nmg r/4 v\r\nmg r/3 v\r\nmg r/2 v\r\nmn\r\nstats spillway\r\n"); err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for line := ""; line != "END\r\n"; {
			var err error
			if line, err = replies.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
			if words := strings.Fields(line); len(words) == 3 && words[0] == "STAT" {
				got[words[1]] = words[2]
			}
		}
		for class, want := range map[string]string{"neighbours": "1", "triangles": "2", "two-hop": "1", "path": "1", "pagerank": "3", "get": ""} {
			if got["arrivals_"+class] != want {
				t.Errorf("%s: %q arrivals of %s, want %q", name, got["arrivals_"+class], class, want)
			}
		}
	}
}

// TestManyAtOnce pipelines more queries than there are workers, over connections of which half go away before they are answered.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	shape := graphdb.DefaultShape()
	shape.Vertices = 5000
	g, err := graphdb.Generate(shape)
	if err != nil {
		t.Fatal(err)
	}
	addr := serve(t, g, nil)
	var clients sync.WaitGroup
	for i := range 16 {
		c := dial(t, addr)
		clients.Add(1)
		go func() {
			defer clients.Done()
			const queries = 50
			var ask strings.Builder
			for q := range queries {
				fmt.Fprintf(&ask, "mg r/%d/0.00001 k v\r\nmg n/%d k v\r\n", q+i, q)
			}
			if _, err := c.Write([]byte(ask.String())); err != nil {
				t.Error(err)
				return
			}
			if i%2 == 0 {
				_ = c.Close()
				return
			}
			replies := bufio.NewReader(c)
			for n := range 2 * queries {
				head, err := replies.ReadString('\n')
				if err == nil && strings.HasPrefix(head, "VA ") {
					_, err = replies.ReadString('\n')
				}
				want := fmt.Sprintf(" kr/%d/0.00001\r\n", n/2+i)
				if n%2 == 1 {
					want = fmt.Sprintf(" kn/%d\r\n", n/2)
				}
				if err != nil || !strings.HasSuffix(head, want) {
					t.Errorf("reply %d: %q, %v; want %q", n, head, err, want)
					return
				}
			}
		}()
	}
	clients.Wait()
}
