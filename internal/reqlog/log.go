package reqlog

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"time"

	"spillway/clock"
)

// A log of requests is a header and blocks, everything in little endian:
//
//	header  "SPLWREQ1", uint32 bytes of a record, uint32 0
//	block   uint32 kind, uint32 point, uint32 bytes of content, uint32 CRC-32 of content; content
//
// A block of records holds whole records of one point; a block of text says what the point is, as its writer likes, and stands behind the
// point's records. A file whose writer was killed can be read up to its last whole block.
const (
	logMagic    = "SPLWREQ1"
	recordBytes = 72
	headBytes   = 16

	blockRecords = 1
	blockText    = 2

	// maxBlock bounds what a reader believes.
	maxBlock = 1 << 24
)

// BlockOf begins a block with room for its head; records or text are appended to it, and SealRecords or SealText completes it.
func BlockOf(dst []byte) []byte { return append(dst[:0], make([]byte, headBytes)...) }

// SealRecords completes a block of records of a point.
func SealRecords(block []byte, point uint32) { seal(block, blockRecords, point) }

// SealText completes a block that says what a point is.
func SealText(block []byte, point uint32) { seal(block, blockText, point) }

func seal(block []byte, kind, point uint32) {
	content := block[headBytes:]
	for i, v := range []uint32{kind, point, uint32(len(content)), crc32.ChecksumIEEE(content)} {
		binary.LittleEndian.PutUint32(block[4*i:], v)
	}
}

// Header returns what a log begins with.
func Header() []byte {
	head := append([]byte(logMagic), 0, 0, 0, 0, 0, 0, 0, 0)
	binary.LittleEndian.PutUint32(head[8:], recordBytes)
	return head
}

// Append appends r in its form of 72 bytes.
func (r *Record) Append(dst []byte) []byte {
	le := binary.LittleEndian
	for _, v := range [...]uint64{
		r.Seq, uint64(r.Intended), uint64(r.Sent), uint64(r.Done), uint64(r.Queued), uint64(r.Service),
		uint64(r.BytesOut) | uint64(r.BytesIn)<<32,
		uint64(r.Class) | uint64(r.Kind)<<16 | uint64(r.Fate)<<24 | uint64(r.Reason)<<32 | uint64(r.Attempts)<<40 | uint64(r.Keys)<<48 | uint64(r.Hits)<<56,
		uint64(r.Held),
	} {
		dst = le.AppendUint64(dst, v)
	}
	return dst
}

// parse reads what Append wrote.
func (r *Record) parse(b []byte) {
	le := binary.LittleEndian
	word := func(i int) uint64 { return le.Uint64(b[8*i:]) }
	sizes, rest := word(6), word(7)
	*r = Record{
		Seq: word(0), Intended: clock.Instant(word(1)), Sent: clock.Instant(word(2)), Done: clock.Instant(word(3)),
		Queued: time.Duration(word(4)), Service: time.Duration(word(5)), BytesOut: uint32(sizes), BytesIn: uint32(sizes >> 32),
		Class: uint16(rest), Kind: uint8(rest >> 16), Fate: Fate(rest >> 24), Reason: uint8(rest >> 32), Attempts: uint8(rest >> 40),
		Keys: uint8(rest >> 48), Hits: uint8(rest >> 56), Held: time.Duration(word(8)),
	}
}

// ErrTruncated is returned by Read for a log that ends in the middle of a block, after all whole blocks have been handed over.
var ErrTruncated = errors.New("the log of requests ends in the middle of a block: its writer was stopped")

// Read hands over every record and every text of a log, in their order. The record is valid during the call.
func Read(r io.Reader, record func(point uint32, r *Record), text func(point uint32, text []byte)) error {
	in := bufio.NewReaderSize(r, 1<<16)
	var head [headBytes]byte
	if _, err := io.ReadFull(in, head[:]); err != nil || string(head[:8]) != logMagic {
		return errors.New("not a log of requests")
	}
	if size := binary.LittleEndian.Uint32(head[8:]); size != recordBytes {
		return fmt.Errorf("a log of requests of %d bytes each, this version reads %d", size, recordBytes)
	}
	var content []byte
	var rec Record
	for {
		if _, err := io.ReadFull(in, head[:]); err == io.EOF {
			return nil
		} else if err != nil {
			return truncated(err)
		}
		field := func(i int) uint32 { return binary.LittleEndian.Uint32(head[4*i:]) }
		kind, point, size, sum := field(0), field(1), field(2), field(3)
		if size > maxBlock || kind == blockRecords && size%recordBytes != 0 {
			return fmt.Errorf("a log of requests with a block of %d bytes: it is damaged", size)
		}
		if uint32(cap(content)) < size {
			content = make([]byte, size)
		}
		content = content[:size]
		if _, err := io.ReadFull(in, content); err != nil {
			return truncated(err)
		}
		if crc32.ChecksumIEEE(content) != sum {
			return errors.New("a log of requests with a wrong checksum: it is damaged")
		}
		switch kind {
		case blockRecords:
			for at := 0; at < len(content); at += recordBytes {
				rec.parse(content[at:])
				record(point, &rec)
			}
		case blockText:
			text(point, content)
		}
	}
}

func truncated(err error) error {
	if err == io.ErrUnexpectedEOF || err == io.EOF {
		return ErrTruncated
	}
	return err
}
