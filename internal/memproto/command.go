// Package memproto is the memcached protocol, text and meta commands, for servers and for clients.
//
// A server feeds what it has read to a Parser, which yields Commands, and renders replies with a Writer. A client renders commands
// with the Append functions and feeds what it has read to a ReplyParser. Neither side reads or writes sockets, and neither
// allocates. Where the protocol's text leaves things open, memcached 1.6.18 is followed to the byte, odd cases included.
package memproto

// Verb says which command it is.
type Verb uint8

// The commands. Unknown is never returned with status Ready.
const (
	Unknown Verb = iota
	Get
	Gets
	Gat
	Gats
	Set
	Add
	Replace
	Append
	Prepend
	CAS
	Delete
	Incr
	Decr
	Touch
	FlushAll
	MetaGet
	MetaSet
	MetaDelete
	MetaArithmetic
	MetaDebug
	MetaNoop
	Version
	Stats
	Quit
	Verbosity
	CacheMemlimit
	Slabs
	LRU
	LRUCrawler
	Watch
	Shutdown
)

var verbNames = [...]string{
	Unknown: "unknown", Get: "get", Gets: "gets", Gat: "gat", Gats: "gats", Set: "set", Add: "add", Replace: "replace", Append: "append",
	Prepend: "prepend", CAS: "cas", Delete: "delete", Incr: "incr", Decr: "decr", Touch: "touch", FlushAll: "flush_all", MetaGet: "mg",
	MetaSet: "ms", MetaDelete: "md", MetaArithmetic: "ma", MetaDebug: "me", MetaNoop: "mn", Version: "version", Stats: "stats", Quit: "quit",
	Verbosity: "verbosity", CacheMemlimit: "cache_memlimit", Slabs: "slabs", LRU: "lru", LRUCrawler: "lru_crawler", Watch: "watch",
	Shutdown: "shutdown",
}

// String returns the word that begins the command's line.
func (v Verb) String() string {
	if int(v) < len(verbNames) {
		return verbNames[v]
	}
	return verbNames[Unknown]
}

// Meta reports whether v is one of the meta commands, whose replies carry flags.
func (v Verb) Meta() bool { return v >= MetaGet && v <= MetaNoop }

// Admin reports whether v is about the server or the connection and not about what is stored.
func (v Verb) Admin() bool { return v >= MetaNoop }

// Retrieval reports whether v asks for values.
func (v Verb) Retrieval() bool { return v >= Get && v <= Gats || v == MetaGet }

// Storage reports whether v brings a value.
func (v Verb) Storage() bool { return v >= Set && v <= CAS || v == MetaSet }

// Mode says what MetaSet and MetaArithmetic do, in the letters of their M flag.
type Mode byte

// The modes. A command without the flag has the default of its verb.
const (
	ModeSet       Mode = 'S'
	ModeAdd       Mode = 'E'
	ModeAppend    Mode = 'A'
	ModePrepend   Mode = 'P'
	ModeReplace   Mode = 'R'
	ModeIncrement Mode = '+'
	ModeDecrement Mode = '-'
)

// Command is one parsed command. Its slices point into the buffer that was parsed, or into the Parser, until Hold copies them.
type Command struct {
	Verb Verb
	Key  []byte // the first key, decoded if it came in base64
	Args []byte // the rest of the line: further keys of a get, flags of a meta command, words of a command about the server

	ClientFlags uint32 // set, ms F
	Exptime     int32  // set, touch, flush_all, T: 0 never, up to 30 days relative, above that Unix time, negative already gone
	Vivify      int32  // N: Exptime of an item that is made because there was none
	Recache     int32  // R: an item that has less left is to be recached
	Length      int    // of the value of a storage command
	Value       []byte // of a storage command, without its line end
	CAS         uint64 // cas, C
	Delta       uint64 // incr, decr, ma D
	Initial     uint64 // ma J
	Demand      uint32 // P<n>[.<priority>]: how many more requests the client would like to send
	Sent        int64  // L<ns>[,<ns>]: the modelled instant at which the client sent it, on the model ground
	Patience    int64  // and how much later than it is due the reply may be read, in modelled ns
	Priority    uint16 // P[<n>].<priority>: as in control.Request

	Mode        Mode // ms M, ma M
	NoReply     bool // classic: no answer at all
	Quiet       bool // meta q: no answer where it is the expected one
	TooLarge    bool // the item is over the Parser's limit; its value was not read and is nil
	BinaryKey   bool // meta b: Key came in base64 and goes back in base64
	WantValue   bool // mg v
	WantTimings bool // meta L
	HasDemand   bool // meta P<n>
	HasPriority bool // meta P[<n>].<priority>
	HasSent     bool // meta L<ns>
	HasOpaque   bool // meta O
	HasCAS      bool // meta C
	HasTTL      bool // meta T, and flush_all with a time
	HasVivify   bool // meta N
	HasRecache  bool // meta R
	Stale       bool // meta I: mark it as stale, or store what may be stale
	LongOpaque  bool // mg, ma: the opaque is too long, which memcached says only after it has done what was asked
	NoUpdate    bool // mg u: the access is not noted

	Error string // of status Refused and Close: the line to answer, "" for silence
}

// ItemKeys calls yield for each key of a get, in order, until it returns false.
func (c *Command) ItemKeys(yield func(key []byte) bool) {
	if len(c.Key) == 0 || !yield(c.Key) { // gat may have no key at all
		return
	}
	for key, rest := token(c.Args); len(key) > 0; key, rest = token(rest) {
		if !yield(key) {
			return
		}
	}
}

// Flags calls yield for each flag of a meta command, in order, until it returns false.
func (c *Command) Flags(yield func(flag []byte) bool) {
	for word, rest := token(c.Args); len(word) > 0; word, rest = token(rest) {
		if !yield(word) {
			return
		}
	}
}

// Hold copies Key and Args into mem, which grows as needed, so that the command outlives the buffer it was parsed from. It returns
// mem. Value is not copied.
func (c *Command) Hold(mem []byte) []byte {
	mem = append(mem[:0], c.Key...)
	mem = append(mem, c.Args...)
	n := len(c.Key)
	c.Key, c.Args = mem[:n:n], mem[n:len(mem):len(mem)]
	return mem
}

// SetBlock completes a command of status Block with its data block: Length bytes of value and two of line end. Value then points into
// block. The status is Ready, or Refused when the block does not end in a line end.
func (c *Command) SetBlock(block []byte) Status {
	value := block[:c.Length]
	if block[c.Length] != '\r' || block[c.Length+1] != '\n' {
		return c.refuse(errBadChunk)
	}
	c.Value = value
	return Ready
}

// refuse makes c a refused command. A classic command with noreply is refused in silence, as memcached does it; that leaves client
// and server in step only because such a client expects nothing.
func (c *Command) refuse(text string) Status {
	if c.NoReply {
		text = ""
	}
	c.Error = text
	return Refused
}

// What memcached answers to mistakes, to the letter.
const (
	errUnknown      = "ERROR"
	errFormat       = "CLIENT_ERROR bad command line format"
	errDelete       = "CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]"
	errBadChunk     = "CLIENT_ERROR bad data chunk"
	errDuplicate    = "CLIENT_ERROR duplicate flag"
	errInvalidFlag  = "CLIENT_ERROR invalid flag"
	errDeleteFlag   = "CLIENT_ERROR invalid or duplicate flag"
	errBadToken     = "CLIENT_ERROR bad token in command line format"
	errBadKey       = "CLIENT_ERROR error decoding key"
	errOpaque       = "CLIENT_ERROR opaque token too long"
	errManyFlagsGet = "CLIENT_ERROR options flags are too long"
	errManyFlags    = "CLIENT_ERROR options flags too long"
	errModeLength   = "CLIENT_ERROR incorrect length for M token"
	errMode         = "CLIENT_ERROR invalid mode for ms M token"
	errArithMode    = "CLIENT_ERROR invalid mode for ma M token"
	errDelta        = "CLIENT_ERROR invalid numeric delta value"
	errInitial      = "CLIENT_ERROR invalid numeric initial value"
	errDeltaArg     = "CLIENT_ERROR invalid numeric delta argument"
	errExptime      = "CLIENT_ERROR invalid exptime argument"

	// OpaqueText is the answer to a LongOpaque.
	OpaqueText = errOpaque
	// NotNumericText is the answer to arithmetic on a value that is not a number.
	NotNumericText = "CLIENT_ERROR cannot increment or decrement non-numeric value"
	// TooLargeText is the answer to an item over the limit.
	TooLargeText = "SERVER_ERROR object too large for cache"
	// BinaryText is the answer to a client of the binary protocol.
	BinaryText = "CLIENT_ERROR the binary protocol is not spoken here, use the text protocol"
)
