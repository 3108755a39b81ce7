//go:build linux

package target

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"iter"
	"strconv"
	"time"

	"spillway/internal/load"
	"spillway/internal/memproto"
	"spillway/workloads"
)

// Stored is what Preload has put into a server.
type Stored struct {
	Items int64
	Bytes int64 // of values
}

const (
	// A batch is what is under way at once: enough to hide the round trip, little enough for the replies to fit into socket buffers, so
	// that neither side waits for the other.
	batchItems = 128
	batchBytes = 1 << 20
	// batchPatience is what a server may take for one batch.
	batchPatience = 30 * time.Second
	// A server under a controller may shed what is stored. It is asked again, more and more slowly.
	maxRounds  = 20 // in a row that admit nothing
	firstPause = time.Millisecond
	maxPause   = 100 * time.Millisecond
)

// Preload stores everything that the workload reads, then reads every key back and compares it with what was stored. A server that
// answers reads with the header alone is held to the size. ctx bounds it; progress, where not nil, is called now and then with what
// has been stored and how many keys have been verified.
//
// Of several servers each is filled, since any of them may be asked for any key; what is returned is what one of them has.
func Preload(ctx context.Context, addr string, w workloads.Preloader, progress func(stored Stored, verified int64)) (stored Stored, err error) {
	for _, one := range split(addr) {
		if stored, err = fill(ctx, one, w, progress); err != nil {
			return stored, err
		}
	}
	return stored, nil
}

func fill(ctx context.Context, addr string, w workloads.Preloader, progress func(stored Stored, verified int64)) (Stored, error) {
	s, err := open(ctx, addr)
	if err != nil {
		return Stored{}, err
	}
	defer s.close()
	p := &preload{setup: s, progress: progress}
	if _, err = s.probe(ctx); err == nil {
		if err = p.each(ctx, w.Preload(), p.store); err == nil {
			err = p.each(ctx, w.Preload(), p.verify)
		}
	}
	return p.stored, s.explain(ctx, err)
}

// preload is one conversation that fills a store.
type preload struct {
	*setup
	progress func(Stored, int64)
	stored   Stored
	verified int64
	batch    []item
	arena    []byte // keys and values of the batch
	request  []byte
	chunk    []byte
}

// item is one key and its value, as places in the arena.
type item struct {
	key, value, end int
	expire          uint32 // seconds; 0 for never
}

func (p *preload) key(i item) []byte   { return p.arena[i.key:i.value] }
func (p *preload) value(i item) []byte { return p.arena[i.value:i.end] }

// each calls do with all operations, a batch at a time.
func (p *preload) each(ctx context.Context, ops iter.Seq[*workloads.Op], do func(context.Context) error) error {
	p.batch, p.arena = p.batch[:0], p.arena[:0]
	flush := func() error {
		if err := do(ctx); err != nil {
			return err
		}
		p.batch, p.arena = p.batch[:0], p.arena[:0]
		if p.progress != nil {
			p.progress(p.stored, p.verified)
		}
		return nil
	}
	for op := range ops {
		i := item{key: len(p.arena), value: len(p.arena) + len(op.Key), expire: op.Expire}
		p.arena = append(append(p.arena, op.Key...), op.Value...)
		i.end = len(p.arena)
		p.batch = append(p.batch, i)
		if len(p.batch) == batchItems || len(p.arena) >= batchBytes {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return flush()
}

// rounds asks for every item of the batch, and again for those that the server sheds, until none is left. request encodes into p.request what
// is asked for one item, and reply takes what is answered, beginning with its first line.
func (p *preload) rounds(ctx context.Context, request func(i item, opaque uint64), reply func(i item, line []byte) error) error {
	left, pause, fruitless := p.batch, firstPause, 0
	for len(left) > 0 {
		if err := p.patience(ctx, batchPatience); err != nil {
			return err
		}
		shed, reason, err := p.round(left, request, reply)
		if err != nil {
			return err
		}
		if len(shed) < len(left) {
			fruitless, pause = 0, firstPause
		} else if fruitless++; fruitless == maxRounds {
			return fmt.Errorf("key %s: shed %d times (%s): preload the server without other load, or under a controller that admits it",
				p.key(left[0]), maxRounds, reason)
		}
		if left = shed; len(left) == 0 {
			return nil
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
		pause = min(2*pause, maxPause)
	}
	return nil
}

// round asks for every item once. It returns what the server shed, and why.
func (p *preload) round(items []item, request func(item, uint64), reply func(item, []byte) error) (shed []item, reason string, err error) {
	for n, i := range items {
		request(i, uint64(n))
		if _, err := p.out.Write(p.request); err != nil {
			return nil, "", err
		}
	}
	if err := p.out.Flush(); err != nil {
		return nil, "", err
	}
	for _, i := range items {
		line, err := p.line()
		if err != nil {
			return nil, "", err
		}
		if why, overloaded := bytes.CutPrefix(line, overloadPrefix); overloaded {
			shed, reason = append(shed, i), string(why)
		} else if err := reply(i, line); err != nil {
			return nil, "", err
		}
	}
	return shed, reason, nil
}

func (p *preload) store(ctx context.Context) error {
	return p.rounds(ctx, func(i item, opaque uint64) {
		p.request = memproto.AppendMetaSet(p.request[:0], p.key(i), p.value(i), int64(i.expire), opaque, memproto.Asks{})
	}, func(i item, line []byte) error {
		if !isReply(line, "HD") {
			return p.refused(i, line)
		}
		p.stored.Items++
		p.stored.Bytes += int64(i.end - i.value)
		return nil
	})
}

var overloadPrefix = []byte("SERVER_ERROR overloaded ")

// isReply reports whether line is the reply code, with or without flags.
func isReply(line []byte, code string) bool {
	rest, found := bytes.CutPrefix(line, []byte(code))
	return found && (len(rest) == 0 || rest[0] == ' ')
}

// refused says why a key was not stored and, where that is known, what helps.
func (p *preload) refused(i item, line []byte) error {
	remedy := ""
	switch {
	case bytes.Contains(line, []byte("too large")):
		remedy = ": raise the server's item size limit, such as with -I 2m"
	case bytes.Contains(line, []byte("out of memory")):
		remedy = ": raise the server's memory, such as with -m 1024"
	case isReply(line, "ERROR"):
		remedy = ": the server does not know the meta commands; memcached has them since version 1.6"
	}
	return fmt.Errorf("storing key %s with a value of %d bytes: answered %q%s", p.key(i), i.end-i.value, line[:min(len(line), quoted)], remedy)
}

func (p *preload) verify(ctx context.Context) error {
	return p.rounds(ctx, func(i item, opaque uint64) {
		p.request = memproto.AppendMetaGet(p.request[:0], p.key(i), opaque, memproto.Asks{})
	}, func(i item, line []byte) error {
		if err := p.compare(i, line); err != nil {
			return fmt.Errorf("key %s: %w", p.key(i), err)
		}
		p.verified++
		return nil
	})
}

// compare holds the reply that begins with line against the value that was stored.
func (p *preload) compare(i item, line []byte) error {
	want := p.value(i)
	switch {
	case isReply(line, "HD"): // the header alone
		size, err := sizeFlag(line)
		if err == nil && size != len(want) {
			err = fmt.Errorf("%d bytes were stored, the server has %d", len(want), size)
		}
		return err
	case isReply(line, "EN"):
		return load.ErrEvicted
	case !isReply(line, "VA"):
		return fmt.Errorf("answered %q to a get", line[:min(len(line), quoted)])
	}
	sizeText, _, _ := bytes.Cut(bytes.TrimPrefix(line, []byte("VA ")), []byte(" "))
	size, err := strconv.Atoi(string(sizeText))
	if err != nil {
		return fmt.Errorf("answered %q to a get", line[:min(len(line), quoted)])
	}
	if size != len(want) {
		return fmt.Errorf("%d bytes were stored, the server has %d", len(want), size)
	}
	if p.chunk == nil {
		p.chunk = make([]byte, readBytes)
	}
	for at := 0; at < size; {
		part := p.chunk[:min(len(p.chunk), size-at)]
		if _, err := io.ReadFull(p.in, part); err != nil {
			return err
		}
		if !bytes.Equal(part, want[at:at+len(part)]) {
			return fmt.Errorf("the server's value differs from what was stored in its bytes %d to %d", at, at+len(part))
		}
		at += len(part)
	}
	end := p.chunk[:2]
	if _, err := io.ReadFull(p.in, end); err != nil {
		return err
	}
	if string(end) != "\r\n" {
		return fmt.Errorf("the value of %d bytes is not followed by the end of a line", size)
	}
	return nil
}

// sizeFlag returns the s flag of a reply.
func sizeFlag(line []byte) (int, error) {
	for _, flag := range bytes.Fields(line)[1:] {
		if size, err := strconv.Atoi(string(flag[1:])); err == nil && flag[0] == 's' {
			return size, nil
		}
	}
	return 0, fmt.Errorf("answered %q, without the size that was asked for", line[:min(len(line), quoted)])
}
