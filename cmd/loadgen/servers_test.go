package main

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"time"
)

// awaitSocket returns once something accepts connections at a socket file.
func awaitSocket(path string) error {
	for deadline := time.Now().Add(10 * time.Second); ; {
		conn, err := net.Dial("unix", path)
		if err == nil {
			return conn.Close()
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("nothing listens at %s: %w", path, err)
		}
		<-time.After(5 * time.Millisecond)
	}
}

// fakeServer listens on a free port. A mute one speaks enough memcached to be taken for one, counts and swallows everything else; the
// other answers like a web server.
func fakeServer(mute bool) (url string, stop func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go talk(conn, mute)
		}
	}()
	return "memcached://" + l.Addr().String(), func() { l.Close() }, nil
}

func talk(conn net.Conn, mute bool) {
	defer conn.Close()
	in := bufio.NewScanner(conn)
	for in.Scan() {
		reply := ""
		switch word, _, _ := strings.Cut(strings.TrimSpace(in.Text()), " "); {
		case !mute:
			reply = "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"
		case word == "version":
			reply = "VERSION 1.6.0-mute\r\n"
		case word == "mn":
			reply = "MN\r\n"
		case word == "stats":
			reply = "STAT cmd_get 0\r\nSTAT cmd_set 0\r\nSTAT delete_hits 0\r\nSTAT delete_misses 0\r\nEND\r\n"
		}
		if _, err := conn.Write([]byte(reply)); err != nil {
			return
		}
	}
}
