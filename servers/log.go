//go:build linux

package servers

import (
	"bytes"
	"fmt"
)

// Levels of Config.Verbose.
const (
	sayTrouble = 1 // what went wrong and is not a client's own fault
	sayAll     = 2 // connections and commands
)

// say writes a line to Config.Log, if the server is to be as talkative as that.
func (s *Server) say(level int32, format string, args ...any) {
	if s.verbose.Load() >= level && s.config.Log != nil {
		s.logging.Lock()
		defer s.logging.Unlock()
		fmt.Fprintf(s.config.Log, format+"\n", args...)
	}
}

// sayCommand logs the first line of what has been parsed, in memcached's form.
func (s *Server) sayCommand(fd int, text []byte) {
	line, _, ended := bytes.Cut(text, []byte{'\n'})
	if ended {
		s.say(sayAll, "<%d %s", fd, bytes.ToValidUTF8(bytes.TrimSuffix(line, []byte{'\r'}), []byte{'?'}))
	}
}
