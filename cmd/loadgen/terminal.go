package main

import (
	"bytes"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// console is a terminal as mpb.ConsoleWriter. It differs from the library's own in that it goes back to the first column before it clears: when Ctrl-C is
// pressed the terminal itself writes ^C, and what stands in those columns would stay for ever.
type console struct {
	bytes.Buffer
	out *os.File
}

// IsTerminal implements mpb.ConsoleWriter.
func (c *console) IsTerminal() bool { return true }

// GetTermSize implements mpb.ConsoleWriter. It is asked for every picture, so that a window may change its size.
func (c *console) GetTermSize() (width, height int, err error) {
	size, err := unix.IoctlGetWinsize(int(c.out.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0, 0, fmt.Errorf("the size of the terminal: %w", err)
	}
	if size.Col == 0 { // a terminal that does not know, such as a serial line
		return 80, 24, nil
	}
	return int(size.Col), int(size.Row), nil
}

// Flush implements mpb.ConsoleWriter: it shows what was written, of which the last so many lines are to be written anew next time.
func (c *console) Flush(lines int) error {
	if _, err := c.WriteTo(c.out); err != nil {
		return err
	}
	if lines > 0 {
		fmt.Fprintf(&c.Buffer, "\r\x1b[%dA\x1b[J", lines)
	}
	return nil
}

// terminalOf returns the terminal that w is, nil if it is none that can move its cursor.
func terminalOf(w io.Writer) *os.File {
	f, ok := w.(*os.File)
	if !ok || os.Getenv("TERM") == "dumb" || os.Getenv("TERM") == "" {
		return nil
	}
	if _, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS); err != nil {
		return nil
	}
	return f
}
