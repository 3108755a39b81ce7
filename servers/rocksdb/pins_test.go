//go:build linux && cgo && !norocksdb

package rocksdb

import (
	"errors"
	"testing"

	"pgregory.net/rapid"
)

// fakePin counts how often it is destroyed.
type fakePin struct{ destroyed int }

func (p *fakePin) Data() []byte { return nil }
func (p *fakePin) Destroy()     { p.destroyed++ }

// TestTokensNameOneValue: a token gives back its own value and no other, once, whatever came and went in between.
func TestTokensNameOneValue(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		p := &pins{destroy: func(v pin) { v.Destroy() }}
		held := map[uint64]*fakePin{}
		var old []uint64
		for range rapid.IntRange(1, 60).Draw(r, "steps") {
			if len(held) == 0 || rapid.Bool().Draw(r, "hold") {
				v := &fakePin{}
				token := p.hold(v)
				if held[token] != nil {
					r.Fatalf("token %#x was given out twice", token)
				}
				held[token] = v
				continue
			}
			for token, v := range held {
				p.Unpin(token)
				if v.destroyed != 1 {
					r.Fatalf("destroyed %d times", v.destroyed)
				}
				delete(held, token)
				old = append(old, token)
				break
			}
		}
		for _, token := range append(old, 1<<40, 1<<20) {
			if err := p.release(token); !errors.Is(err, errReleased) {
				r.Fatalf("token %#x a second time: %v", token, err)
			}
		}
		if taken, freed := p.counts(); taken-freed != uint64(len(held)) {
			r.Fatalf("%d taken, %d given back, %d held", taken, freed, len(held))
		}
		p.releaseAll()
		for token, v := range held {
			if v.destroyed != 1 {
				r.Fatalf("%#x was destroyed %d times in the end", token, v.destroyed)
			}
			if err := p.release(token); !errors.Is(err, errReleased) {
				r.Fatalf("token %#x after the end: %v", token, err)
			}
		}
	})
}
