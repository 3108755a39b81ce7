package workloads

import (
	"encoding/binary"

	"spillway/internal/dist"
)

// noiseBytes is the length of the block that values are cut from. Longer values repeat it.
const noiseBytes = 1 << 20

// noise makes values that do not compress.
type noise struct {
	block []byte
	value []byte // made last
}

func newNoise() noise {
	n := noise{block: make([]byte, noiseBytes)}
	source := dist.Source(0, "values", 0)
	for i := 0; i < noiseBytes; i += 8 {
		binary.LittleEndian.PutUint64(n.block[i:], source.Uint64())
	}
	return n
}

// cut returns the value of what id stands for: a cut from the block at a place that the id decides, with the id in front so that no two values
// of eight bytes and more are alike. It is valid until the next call.
func (n *noise) cut(id uint64, size int) []byte {
	if cap(n.value) < size {
		n.value = make([]byte, size+size/4)
	}
	value := n.value[:size]
	for done, from := 0, int(id%noiseBytes); done < size; from = 0 {
		done += copy(value[done:], n.block[from:])
	}
	var head [8]byte
	binary.LittleEndian.PutUint64(head[:], id)
	copy(value, head[:])
	return value
}
