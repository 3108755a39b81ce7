//go:build linux

package httptarget

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"spillway/internal/load"
	"spillway/workloads"
)

const (
	// setupTimeout bounds one exchange of the set-up when ctx does not.
	setupTimeout = 10 * time.Second
	// maxStats bounds the bytes of statistics that are read.
	maxStats = 1 << 20
	// fillers is how many values are stored at a time.
	fillers = 16
	// A server under a controller may shed what is stored. It is asked again, more and more slowly.
	maxTries   = 20
	firstPause = time.Millisecond
	maxPause   = 100 * time.Millisecond
)

// newClient returns a client for what happens before and after the load.
func newClient() *http.Client {
	return &http.Client{
		Timeout:       setupTimeout,
		Transport:     &http.Transport{MaxIdleConnsPerHost: fillers, DisableCompression: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// ask sends a request of the set-up.
func ask(ctx context.Context, c *http.Client, method, url string, class string, body []byte) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if class != "" {
		r.Header.Set(DefaultClassHeader, class)
	}
	return c.Do(r)
}

// Probe returns what the HTTP server at url calls itself. It asks for the head of the root, which costs a server next to nothing.
func Probe(ctx context.Context, url string) (version string, err error) {
	t, err := ParseURL(url)
	if err != nil {
		return "", err
	}
	c := newClient()
	defer c.CloseIdleConnections()
	reply, err := ask(ctx, c, http.MethodHead, "http://"+t.Address+"/", "", nil)
	if err != nil {
		return "", explain(ctx, url, err)
	}
	_ = reply.Body.Close()
	if version = reply.Header.Get("Server"); version == "" {
		version = "a server that does not say what it is"
	}
	return version, nil
}

// explain says what an error of the set-up means to whoever started it.
func explain(ctx context.Context, url string, err error) error {
	var op *net.OpError
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%s: %w", url, context.Cause(ctx))
	case strings.Contains(err.Error(), "malformed HTTP"):
		return fmt.Errorf("%s: answers, but not in HTTP: %w", url, err)
	case errors.As(err, &op) && op.Op == "dial":
		return fmt.Errorf("connecting to %s: %w", url, op)
	}
	return fmt.Errorf("%s: %w", url, err)
}

// Stats returns the statistics of a server of ours by name.
func Stats(ctx context.Context, url string) (map[string]string, error) {
	t, err := ParseURL(url)
	if err != nil {
		return nil, err
	}
	c := newClient()
	defer c.CloseIdleConnections()
	reply, err := ask(ctx, c, http.MethodGet, "http://"+t.Address+"/stats", "", nil)
	if err != nil {
		return nil, explain(ctx, url, err)
	}
	defer reply.Body.Close()
	values := map[string]json.Number{}
	d := json.NewDecoder(io.LimitReader(reply.Body, maxStats))
	if reply.StatusCode != http.StatusOK || d.Decode(&values) != nil {
		return nil, fmt.Errorf("%s: has no statistics of ours at /stats", url)
	}
	all := make(map[string]string, len(values))
	for name, v := range values {
		all[name] = v.String()
	}
	return all, nil
}

// Stored is what Preload has put into a server.
type Stored struct {
	Items int64
	Bytes int64 // of values
}

// Preload stores everything that the workload reads with PUT, then reads every key back and compares it with what was stored. classes are the
// names of the workload's classes.
func Preload(ctx context.Context, url string, classes []string, w workloads.Preloader) (stored Stored, err error) {
	t, err := ParseURL(url)
	if err != nil {
		return stored, err
	}
	if !t.Keyed {
		return stored, fmt.Errorf("target %q: without %s in its path there is nothing to store", url, keyMark)
	}
	p := &preload{template: t, classes: classes, client: newClient()}
	defer p.client.CloseIdleConnections()
	if err = p.each(ctx, w, p.store); err == nil {
		err = p.each(ctx, w, p.verify)
	}
	if err != nil {
		return p.stored, fmt.Errorf("%s: %w", url, err)
	}
	return p.stored, nil
}

// preload is one filling of a store.
type preload struct {
	template Template
	classes  []string
	client   *http.Client
	stored   Stored
}

// item is one key and its value.
type item struct {
	class string
	key   string
	value []byte
}

// each calls do with every item, several at a time.
func (p *preload) each(ctx context.Context, w workloads.Preloader, do func(context.Context, *item) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	items := make(chan item)
	var workers sync.WaitGroup
	for range fillers {
		workers.Go(func() {
			for i := range items {
				if ctx.Err() != nil {
					continue
				}
				if err := do(ctx, &i); err != nil {
					cancel(err)
				}
			}
		})
	}
	p.stored = Stored{}
	for op := range w.Preload() {
		i := item{key: string(op.Key), value: bytes.Clone(op.Value)}
		if int(op.Class) < len(p.classes) {
			i.class = p.classes[op.Class]
		}
		p.stored.Items++
		p.stored.Bytes += int64(len(i.value))
		select {
		case items <- i:
			continue
		case <-ctx.Done():
		}
		break
	}
	close(items)
	workers.Wait()
	return context.Cause(ctx)
}

// exchange asks until the request is not shed, and returns the reply's status and body.
func (p *preload) exchange(ctx context.Context, method string, i *item, body []byte) (status int, answer []byte, err error) {
	pause := firstPause
	for try := 1; ; try++ {
		reply, err := ask(ctx, p.client, method, "http://"+p.template.Address+p.template.Path(i.class, i.key), i.class, body)
		if err != nil {
			return 0, nil, err
		}
		answer, err = io.ReadAll(io.LimitReader(reply.Body, int64(len(i.value))+maxStats))
		_ = reply.Body.Close()
		shed := reply.StatusCode == http.StatusTooManyRequests || reply.StatusCode == http.StatusServiceUnavailable
		if err != nil || !shed {
			return reply.StatusCode, answer, err
		}
		if try == maxTries {
			return 0, nil, fmt.Errorf("key %s: shed %d times: preload the server without other load, or under a controller that admits it", i.key, maxTries)
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return 0, nil, context.Cause(ctx)
		}
		pause = min(2*pause, maxPause)
	}
}

func (p *preload) store(ctx context.Context, i *item) error {
	status, _, err := p.exchange(ctx, http.MethodPut, i, i.value)
	switch {
	case err != nil:
		return err
	case status == http.StatusNotFound || status == http.StatusMethodNotAllowed:
		return fmt.Errorf("storing key %s: answered with status %d to a PUT: it does not store; leave the values out with --no-preload", i.key, status)
	case status >= 300:
		return fmt.Errorf("storing key %s with a value of %d bytes: answered with status %d", i.key, len(i.value), status)
	}
	return nil
}

func (p *preload) verify(ctx context.Context, i *item) error {
	status, answer, err := p.exchange(ctx, http.MethodGet, i, nil)
	switch {
	case err != nil:
		return err
	case status == http.StatusNotFound:
		return fmt.Errorf("key %s: %w", i.key, load.ErrEvicted)
	case status != http.StatusOK:
		return fmt.Errorf("key %s: answered with status %d to a GET", i.key, status)
	case !bytes.Equal(answer, i.value):
		return fmt.Errorf("key %s: the server's value of %d bytes differs from the one of %d bytes that was stored", i.key, len(answer), len(i.value))
	}
	return nil
}
