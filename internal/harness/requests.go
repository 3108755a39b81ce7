//go:build linux

package harness

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"spillway/internal/drive"
	"spillway/internal/reqlog"
	"spillway/report"
)

// recording is requests.bin in the making: one record for every request of every point.
type recording struct {
	path  string
	file  *os.File
	log   *drive.Log
	out   *bufio.Writer
	point uint32
}

// newRecording begins the file beside its place.
func newRecording(dir string) (*recording, error) {
	r := &recording{path: filepath.Join(dir, report.RequestsFile)}
	var err error
	if r.file, err = os.OpenFile(r.path+".partial", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666); err != nil {
		return nil, fmt.Errorf("results: %w", err)
	}
	r.out = bufio.NewWriterSize(r.file, 1<<16)
	r.log = drive.NewLog(r.out)
	return r, nil
}

// begin returns where the senders of a point put their records, and what ends the point.
func (r *recording) begin(senders int) (record func(int, *reqlog.Record), end func(*drive.Result, report.PointOfRequests)) {
	streams := make([]*drive.Stream, senders)
	for i := range streams {
		streams[i] = r.log.Stream(r.point)
	}
	record = func(shard int, rec *reqlog.Record) { streams[shard].Add(rec) }
	end = func(l *drive.Result, p report.PointOfRequests) {
		for _, s := range streams {
			s.Close()
		}
		if l.Tally != nil {
			p.FromNS, p.ToNS = int64(l.Tally.From), int64(l.Tally.To)
		}
		text, err := json.Marshal(p)
		if err != nil {
			panic("harness: " + err.Error()) // it holds nothing that JSON cannot say
		}
		r.log.Describe(r.point, text)
		r.point++
	}
	return record, end
}

// close puts the file in its place. After a failure what there is stays beside it.
func (r *recording) close() error {
	err := errors.Join(r.log.Close(), r.out.Flush(), r.file.Close())
	if err != nil {
		return fmt.Errorf("results: %s: %w", r.path, err)
	}
	return os.Rename(r.path+".partial", r.path)
}
