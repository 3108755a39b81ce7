//go:build linux

package memcached

// ValueSize returns the bytes of the value that is stored under key, 0 if there is none. It does not count as an access: a modelled machine
// asks before the command is executed, to know what it will cost.
func (b *Backend) ValueSize(key []byte) int {
	l := b.cache.Acquire(key)
	defer l.Release()
	it, ok := l.Find(b.now.Load())
	if !ok {
		return 0
	}
	return it.Size()
}
