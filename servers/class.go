//go:build linux

package servers

import (
	"spillway/control"
	"spillway/internal/memproto"
)

// The classes of requests, in control.Request.Class: what a client wants done.
const (
	classGet uint16 = iota
	classSet
	classDelete
	classOther // arithmetic, touch, flush_all and me
	numClasses
)

var classNames = [numClasses]string{classGet: "get", classSet: "set", classDelete: "delete", classOther: "other"}

func classOf(v memproto.Verb) uint16 {
	switch {
	case v.Retrieval():
		return classGet
	case v.Storage():
		return classSet
	case v == memproto.Delete || v == memproto.MetaDelete:
		return classDelete
	}
	return classOther
}

// bytesOf returns the size of the value that a command brings, whether it has been read or is too large to be. That of a value which is
// asked for is not known yet.
func bytesOf(c *memproto.Command) int64 { return int64(c.Length) }

// classCounts are what became of the requests of one class.
type classCounts struct {
	arrived uint64
	shed    [control.NumReasons]uint64
}
