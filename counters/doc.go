// Package counters says how many bytes move over this machine's memory bus, and how hard its processors, memory and scheduler are pressed.
//
// There is no one way to know. A Provider is one: counters of a memory controller, of a cache, of the kernel's resource control, or, where a
// machine shows none of them (most virtual machines do not), bytes that a program accounts for itself and the speed of a small stream of our
// own. Detect opens them in order of belief and takes the first whose count moves while a stream of ours does; every other one
// has a reason and a remedy. What is estimated says so.
//
// A Source gives windows: how much moved since it was last read. What it does not know is missing, NaN, and never zero. A Sampler turns sources
// into series on one thread; Cached keeps one value fresh for a request path that must not read files nor take locks.
//
// Encodings are facts from the kernel and from vendors' event files; docs/counters.md says what each source measures and how far to trust it.
package counters
