//go:build linux

package httptarget

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"spillway/internal/metrics"
)

// TestControl: a server of ours names its controller, and nothing is made of what others say.
func TestControl(t *testing.T) {
	t.Parallel()
	text := func(code int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(code)
			_, _ = w.Write([]byte(body))
		}
	}
	named := func(control string) http.Handler {
		return metrics.Page(func() metrics.Figures {
			return metrics.Figures{Control: control, Meters: func(func(string, float64) bool) {}, Store: func(func(string, uint64) bool) {}}
		})
	}
	for name, tt := range map[string]struct {
		page http.Handler
		want string
	}{
		"ours":           {named("svalinn"), "svalinn"},
		"without a name": {named(""), ""},
		"nothing there":  {http.NotFoundHandler(), ""},
		"an error":       {text(500, controlMetric+"{control=\"codel\"} 1\n"), ""},
		"other metrics":  {text(200, "# HELP up\nup 1\n"), ""},
		"a web page":     {text(200, "<html>"+strings.Repeat("x", 1<<17)), ""},
		"not set":        {text(200, controlMetric+"{control=\"codel\"} 0\n"), ""},
		"torn":           {text(200, controlMetric+"{control=\"codel"), ""},
	} {
		asked := ""
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked = r.URL.Path
			tt.page.ServeHTTP(w, r)
		}))
		got, err := Control(t.Context(), s.URL+"/kv/{key}")
		s.Close()
		if got != tt.want || err != nil || asked != "/metrics" {
			t.Errorf("%s: %q, %v, asked for %s; want %q", name, got, err, asked, tt.want)
		}
	}
	if _, err := Control(t.Context(), "http://127.0.0.1:1/"); err == nil {
		t.Error("nobody is there, and no error")
	}
}
