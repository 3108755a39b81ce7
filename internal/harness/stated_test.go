//go:build linux

package harness

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// says listens as a memcached server that answers `stats spillway` with reply, and returns its address.
func says(t *testing.T, reply string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() { l.Close(); <-done })
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			for in := bufio.NewScanner(c); in.Scan(); {
				answer := "VERSION 1.6\r\n"
				if strings.HasPrefix(in.Text(), "stats") {
					answer = reply
				}
				if _, err := fmt.Fprint(c, answer); err != nil {
					break
				}
			}
			c.Close()
		}
	}()
	return "memcached://" + l.Addr().String()
}

// TestNameControl: the rows of a server that runs already are labelled with what it says of itself, and with nothing that it does not say.
func TestNameControl(t *testing.T) {
	t.Parallel()
	named := func(name string) string { return "STAT control " + name + "\r\nSTAT arrivals 1\r\nEND\r\n" }
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/metrics" {
			fmt.Fprintln(w, `spillway_control_info{control="vegas"} 1`)
		}
	}))
	t.Cleanup(web.Close)
	plain := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(plain.Close)
	codel := says(t, named("codel"))
	for name, tt := range map[string]struct{ target, as, want string }{
		"ours":             {codel, "", "codel"},
		"without control":  {says(t, named("none")), "", "none"},
		"memcached":        {says(t, "ERROR\r\n"), "", "unknown"},
		"an older one":     {says(t, "STAT arrivals 1\r\nEND\r\n"), "", "unknown"},
		"no name":          {says(t, named("a b")), "", "unknown"},
		"two alike":        {codel + "," + strings.TrimPrefix(codel, "memcached://"), "", "codel"},
		"two that differ":  {codel + "," + strings.TrimPrefix(says(t, named("none")), "memcached://"), "", "unknown"},
		"a label":          {codel, ", as: mine", "mine"},
		"nobody":           {"memcached://127.0.0.1:1", "", "unknown"},
		"ours over HTTP":   {web.URL + "/kv/{key}", "", "vegas"},
		"theirs over HTTP": {plain.URL + "/", "", "unknown"},
	} {
		p := profile(t, "kind: memcached", fmt.Sprintf("kind: external, settings: {target: %q}", tt.target),
			"[{name: none}, {name: codel}, {name: fixed, as: eight, settings: {limit: 8}}]", "[{name: none"+tt.as+"}]")
		c := Config{Profile: p}
		if err := c.nameControl(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := c.Profile.Controllers[0].Label(); got != tt.want || len(c.Profile.Controllers) != 1 || c.Profile.Controllers[0].Name != "none" {
			t.Errorf("%s: labelled %q, want %q", name, got, tt.want)
		}
		if p.Controllers[0].Label() == "codel" {
			t.Errorf("%s: the profile of the caller was changed", name)
		}
		if err := refuseControllers(c.Profile); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if c.unreached != (name == "nobody") {
			t.Errorf("%s: unreached %v", name, c.unreached)
		}
	}
	// A server that we start is under the controller that the profile says.
	c := Config{Profile: profile(t)}
	if err := c.nameControl(context.Background()); err != nil || c.Profile.Controllers[0].Label() != "none" {
		t.Error(c.Profile.Controllers[0].Label(), err)
	}
}
