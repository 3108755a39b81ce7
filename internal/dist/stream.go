package dist

import "math/rand/v2"

// Stream returns the random stream of one consumer. Streams of different (seed, purpose, index) are independent, so adding a
// consumer does not shift what the others draw: a comparison of two controllers keeps its arrivals when one of them starts to
// need random numbers.
func Stream(seed uint64, purpose string, index uint64) *rand.Rand {
	return rand.New(Source(seed, purpose, index))
}

// Source returns the generator under Stream, for callers that seed it again and again without allocating.
func Source(seed uint64, purpose string, index uint64) *rand.PCG {
	const fnvOffset, fnvPrime = 14695981039346656037, 1099511628211
	name := uint64(fnvOffset)
	for i := range len(purpose) {
		name = (name ^ uint64(purpose[i])) * fnvPrime
	}
	high := Mix(seed ^ Mix(name))
	return rand.NewPCG(high, Mix(high^Mix(index+1)))
}

// Mix spreads the bits of x over all 64 bits, one to one: the finaliser of splitmix64. Neighbouring seeds and indices would
// otherwise start neighbouring streams.
func Mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
