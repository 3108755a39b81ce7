//go:build linux

package httptarget

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
)

// controlMetric is the metric by which a reference server says which controller it has; see internal/metrics.
const controlMetric = "spillway_control_info"

// Control returns the name of the controller of the server at url, as its /metrics have it; empty where they say nothing of it, as those of servers
// that are not ours.
func Control(ctx context.Context, url string) (string, error) {
	t, err := ParseURL(url)
	if err != nil {
		return "", err
	}
	c := newClient()
	defer c.CloseIdleConnections()
	reply, err := ask(ctx, c, http.MethodGet, "http://"+t.Address+"/metrics", "", nil)
	if err != nil {
		return "", explain(ctx, url, err)
	}
	defer reply.Body.Close()
	if reply.StatusCode != http.StatusOK {
		return "", nil
	}
	lines := bufio.NewScanner(io.LimitReader(reply.Body, maxStats))
	for lines.Scan() {
		rest, found := strings.CutPrefix(lines.Text(), controlMetric+`{control="`)
		name, value, whole := strings.Cut(rest, `"} `)
		if found && whole && value == "1" {
			return name, nil
		}
	}
	return "", nil // a line that is too long is of no page of ours
}
