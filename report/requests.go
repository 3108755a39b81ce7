package report

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"spillway/internal/reqlog"
)

// RequestsFile has one record for every request, where a run was asked to record them.
const RequestsFile = "requests.bin"

// PointOfRequests says what a point of that file is.
type PointOfRequests struct {
	Controller string   `json:"controller"`
	Load       string   `json:"load"`
	Repeat     int      `json:"repeat"`
	Classes    []string `json:"classes"`
	FromNS     int64    `json:"from_ns"` // the window, on the clock of the records
	ToNS       int64    `json:"to_ns"`
}

// requestsHeader names the columns of Requests. Times are microseconds since the window began; what is not known is empty.
const requestsHeader = "controller,load,repeat,seq,class,kind,fate,intended_us,send_lag_us,latency_us,queue_us,service_us,bytes_out,bytes_in,keys,hits\n"

// kindNames are the kinds of operation by their number in a record.
var kindNames = []string{"get", "set", "delete", "multiget"}

// Requests writes the recorded requests of the windows of a result directory, one a line of CSV, in the order in which their fates were
// decided by each sender. It reads the file twice, since what a point is stands behind its records, and holds none of it in memory.
func Requests(w io.Writer, dir string) error {
	points := map[uint32]*PointOfRequests{}
	err := readRequests(dir, func(uint32, *reqlog.Record) {}, func(point uint32, text []byte) {
		p := &PointOfRequests{}
		if json.Unmarshal(text, p) == nil {
			points[point] = p
		}
	})
	if err != nil && !errors.Is(err, reqlog.ErrTruncated) {
		return err
	}
	out := bufio.NewWriterSize(w, 1<<16)
	if _, err := out.WriteString(requestsHeader); err != nil {
		return err
	}
	var line []byte
	again := readRequests(dir, func(point uint32, r *reqlog.Record) {
		if p := points[point]; p != nil && int64(r.Intended) >= p.FromNS && int64(r.Intended) < p.ToNS {
			line = p.append(line[:0], r)
			_, _ = out.Write(line) // an error stays, and Flush tells it
		}
	}, func(uint32, []byte) {})
	if errors.Is(again, reqlog.ErrTruncated) {
		again = nil // what is whole has been written; the first reading has noticed
	}
	return errors.Join(again, out.Flush())
}

func readRequests(dir string, record func(uint32, *reqlog.Record), text func(uint32, []byte)) error {
	path := filepath.Join(dir, RequestsFile)
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
			return missing(dir)
		}
		return fmt.Errorf("%s has no %s; a run writes one with --record", dir, RequestsFile)
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if err := reqlog.Read(f, record, text); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// append writes a line.
func (p *PointOfRequests) append(dst []byte, r *reqlog.Record) []byte {
	name := func(list []string, i int) string {
		if i < len(list) {
			return list[i]
		}
		return strconv.Itoa(i)
	}
	micros := func(ns int64, known bool) {
		dst = append(dst, ',')
		if known {
			dst = strconv.AppendFloat(dst, float64(ns)/1000, 'f', -1, 64)
		}
	}
	dst = append(dst, p.Controller...)
	dst = append(append(dst, ','), p.Load...)
	dst = strconv.AppendInt(append(dst, ','), int64(p.Repeat), 10)
	dst = strconv.AppendUint(append(dst, ','), r.Seq, 10)
	dst = append(append(dst, ','), name(p.Classes, int(r.Class))...)
	dst = append(append(dst, ','), name(kindNames, int(r.Kind))...)
	dst = append(append(dst, ','), r.Fate.String()...)
	micros(int64(r.Intended)-p.FromNS, true)
	micros(int64(r.SendLag()), r.Fate.Sent())
	micros(int64(r.Latency()), r.Fate.Completed())
	micros(int64(r.Queued), r.Queued >= 0)
	micros(int64(r.Service), r.Service >= 0)
	for _, n := range []uint64{uint64(r.BytesOut), uint64(r.BytesIn), uint64(r.Keys), uint64(r.Hits)} {
		dst = strconv.AppendUint(append(dst, ','), n, 10)
	}
	return append(dst, '\n')
}
