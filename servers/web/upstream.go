//go:build linux

package web

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"time"
)

const (
	upstreamDial = 5 * time.Second
	// upstreamWait is how long the server behind may take for the head of a reply.
	upstreamWait = 30 * time.Second
	// upstreamIdle is how long a connection to it is kept for the next request. It is shorter than the time in which a server, ours or
	// another, wants the first request of a connection: one that was opened ahead of need would otherwise be closed by the server just
	// when it is used, and no client sends a request again that a fresh connection has lost.
	upstreamIdle = 3 * time.Second
)

// newProxy returns what passes requests on to the server behind.
func (s *Server) newProxy() http.Handler {
	to, _ := url.Parse(s.config.Upstream) // it has been checked
	transport := &http.Transport{
		DialContext:     (&net.Dialer{Timeout: upstreamDial}).DialContext,
		MaxConnsPerHost: s.config.UpstreamConns, MaxIdleConnsPerHost: s.config.UpstreamConns, MaxIdleConns: s.config.UpstreamConns,
		ResponseHeaderTimeout: upstreamWait, IdleConnTimeout: upstreamIdle, DisableCompression: true,
	}
	s.idle = transport.CloseIdleConnections
	return &httputil.ReverseProxy{
		Transport: transport, ErrorLog: quiet(), ErrorHandler: upstreamFailed,
		Rewrite: func(r *httputil.ProxyRequest) {
			class, _, path, _ := s.route(r.In)
			r.SetURL(to)
			r.Out.URL.Path, r.Out.URL.RawPath = strings.TrimSuffix(to.Path, "/")+"/"+path, ""
			if plain, wrong := unescape(path); !wrong && plain != path {
				r.Out.URL.RawPath = r.Out.URL.Path
				r.Out.URL.Path = strings.TrimSuffix(to.Path, "/") + "/" + plain
			}
			// Other protocols would pass the control by.
			r.Out.Header.Del("Connection")
			r.Out.Header.Del("Upgrade")
			// Whatever said the class to us, this says it to the server behind.
			r.Out.Header.Set(HeaderClass, s.config.Classes[class])
		},
		ModifyResponse: func(r *http.Response) error {
			for _, ours := range []string{"Server", "Server-Timing", "RateLimit", "RateLimit-Policy"} {
				r.Header.Del(ours)
			}
			return nil
		},
	}
}

// upstreamFailed answers a request that the server behind has not answered.
func upstreamFailed(w http.ResponseWriter, r *http.Request, err error) {
	var large *http.MaxBytesError
	var slow net.Error
	switch {
	case errors.As(err, &large):
		refuseBody(w, err)
	case r.Context().Err() != nil && errors.Is(err, context.Canceled): // the client has gone
	case errors.As(err, &slow) && slow.Timeout():
		http.Error(w, "the server behind does not answer in time", http.StatusGatewayTimeout)
	default:
		http.Error(w, "the server behind cannot be reached", http.StatusBadGateway)
	}
}
