package main

import (
	"fmt"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// spareFiles is how many descriptors a server needs beside those of its clients: listeners, pollers, standard streams, a metrics page.
const spareFiles = 64

// raiseFiles sees to it that the process may have as many connections open as it is to accept.
func raiseFiles(conns int) error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("limit on open files: %w", err)
	}
	want := uint64(conns) + spareFiles
	if limit.Cur >= want {
		return nil
	}
	limit.Cur, limit.Max = want, max(limit.Max, want)
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("%d connections need %d open files, which is more than this process may have: %w; raise ulimit -n, or ask for fewer with -c", conns, want, err)
	}
	return nil
}

// switchUser gives up root for another user, for good. An empty name changes nothing.
func switchUser(name string) error {
	if name == "" {
		return nil
	}
	u, err := user.Lookup(name)
	if err != nil {
		return usageError{fmt.Errorf("-u: there is no user %q to run as", name)}
	}
	uid, err1 := strconv.Atoi(u.Uid)
	gid, err2 := strconv.Atoi(u.Gid)
	if err1 != nil || err2 != nil {
		return fmt.Errorf("user %q has the identity %s:%s, which is not a number", name, u.Uid, u.Gid)
	}
	switch {
	case os.Geteuid() == uid:
		return nil
	case os.Geteuid() != 0:
		return usageError{fmt.Errorf("-u %s: only root can run as somebody else", name)}
	}
	// The user last: without root the groups could not be changed any more.
	if err := syscall.Setgroups([]int{gid}); err != nil {
		return fmt.Errorf("running as %s: %w", name, err)
	}
	if err := syscall.Setgid(gid); err != nil {
		return fmt.Errorf("running as %s: %w", name, err)
	}
	if err := syscall.Setuid(uid); err != nil {
		return fmt.Errorf("running as %s: %w", name, err)
	}
	return nil
}
