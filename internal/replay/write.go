package replay

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"spillway/workloads"
)

// Writer writes a log, row by row. Its errors come at the latest from Close.
type Writer struct {
	out  *bufio.Writer
	line []byte
	rows int64
}

// NewWriter returns a writer that has written the header.
func NewWriter(w io.Writer) *Writer {
	out := bufio.NewWriterSize(w, 1<<16)
	_, _ = out.WriteString(strings.Join(Columns, ",") + "\n") // it fails again in Close
	return &Writer{out: out}
}

// Write appends a row.
func (w *Writer) Write(r *Row) error {
	b := appendSeconds(w.line[:0], r.At)
	b = append(append(b, ','), r.Class...)
	b = append(b, ',')
	b = appendKeys(b, r.Keys)
	b = append(b, ',')
	b = appendSizes(b, r.Sizes)
	b = append(append(b, ','), r.Kind.String()...)
	w.line = append(b, '\n')
	w.rows++
	_, err := w.out.Write(w.line)
	return err
}

// Rows returns how many rows were written.
func (w *Writer) Rows() int64 { return w.rows }

// Close writes what is still in memory.
func (w *Writer) Close() error { return w.out.Flush() }

// appendKeys writes keys as one field, quoted if it must be.
func appendKeys(dst []byte, keys [][]byte) []byte {
	quoted := slices.ContainsFunc(keys, func(key []byte) bool { return slices.Contains(key, ',') || slices.Contains(key, '"') })
	if quoted {
		dst = append(dst, '"')
	}
	for i, key := range keys {
		if i > 0 {
			dst = append(dst, ' ')
		}
		for _, c := range key {
			if c == '"' {
				dst = append(dst, '"')
			}
			dst = append(dst, c)
		}
	}
	if quoted {
		dst = append(dst, '"')
	}
	return dst
}

// appendSizes writes sizes as one field: one if all are the same.
func appendSizes(dst []byte, sizes []int64) []byte {
	same := !slices.ContainsFunc(sizes, func(n int64) bool { return n != sizes[0] })
	for i, n := range sizes {
		if i > 0 && same {
			break
		}
		if i > 0 {
			dst = append(dst, ' ')
		}
		switch {
		case n != workloads.NoValue:
			dst = strconv.AppendInt(dst, n, 10)
		case !same:
			dst = append(dst, '-')
		}
	}
	return dst
}

// Create writes a file as a whole or not at all: beside its place, then renamed. An existing one is replaced.
func Create(path string, write func(io.Writer) error) error {
	if path == "-" {
		return errors.New("a log is not written to standard output, which has the summary; name a file (./- if it shall be called so)")
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%s is there and is no file; name another", path)
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		var p *os.PathError
		if errors.As(err, &p) {
			err = p.Err
		}
		return fmt.Errorf("%s cannot be written: %w", path, err)
	}
	err = write(f)
	err = errors.Join(err, f.Chmod(0o644), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err == nil {
		return nil
	}
	_ = os.Remove(f.Name()) // what is wrong has been said
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fmt.Errorf("%s was not written: the disk is full; make room or name a file on another", path)
	}
	return err
}
