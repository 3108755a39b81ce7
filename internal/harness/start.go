//go:build linux

package harness

import (
	"context"
	"os"
	"strconv"
)

// StartServer starts refserver with arguments of its own, on so many cores, for somebody who wants to measure it alone. It returns where it
// listens and what ends it.
func StartServer(ctx context.Context, args []string, cores int) (addr string, stop func(), err error) {
	path, err := findServer()
	if err != nil {
		return "", nil, err
	}
	p, err := startProcess(ctx, path, args, append(os.Environ(), "GOMAXPROCS="+strconv.Itoa(cores)))
	if err != nil {
		return "", nil, err
	}
	return p.addr, p.stop, nil
}
