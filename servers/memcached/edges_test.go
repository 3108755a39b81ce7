//go:build linux

package memcached_test

import "strings"

// edges are sequences found by hand, most of them from reading or probing memcached.
func edges() []string {
	k250, k251 := strings.Repeat("k", 250), strings.Repeat("k", 251)
	list := []string{
		"\r\n", "\n", "   \r\n", "get\r\n", "get \r\n", "gets\r\n", "GET a\r\n", "get a\nget b\n", "get\ta\r\n", "get a\tb\r\n", "get a\x00b\r\n", "a\r\r\n", "get a\r\r\n",
		"bogus\r\n", "bogus a b\r\n", "ver\r\n", "versionx\r\n", "g\r\n", "gf a HTTP/1.1\r\nversion\r\n", "foo HTTP/1.1\r\nversion\r\n", "foo HTTP/1.1 x\r\nversion\r\n",
		"foo " + strings.Repeat("x ", 21) + "HTTP/1.1\r\nversion\r\n", "foo " + strings.Repeat("x ", 22) + "HTTP/1.1\r\nversion\r\n",
		"get a HTTP/1.1\r\nversion\r\n", "version HTTP/1.0\r\nversion x y z\r\n", "quit\r\nversion\r\n", "quit x\r\nversion\r\n", "quitx\r\nversion\r\n",
		"set\r\n", "set a\r\n", "set a 0 0\r\n", "set a 0 0 1 noreply extra\r\nz\r\n", "set a 0 0 1 nope\r\nz\r\nget a\r\n", "set a 0 0 noreply\r\nversion\r\n",
		"set a 0 0 -1\r\nx\r\n", "set a 0 0 x\r\nx\r\n", "set a 0 0 x noreply\r\nx\r\n", "set a x 0 1\r\nx\r\n", "set a -1 0 1\r\nx\r\n", "set a 4294967295 0 1\r\nx\r\nget a\r\n",
		"set a 4294967296 0 1\r\nx\r\nget a\r\n", "set a 18446744073709551616 0 1\r\nx\r\n", "set a -18446744073709551615 0 1\r\nx\r\nget a\r\n", "set a 0 x 1\r\nx\r\n",
		"set a 0 -1 1\r\nx\r\nget a\r\n", "set a 0 99999999999 1\r\nx\r\nget a\r\n", "set a 0 2147483647 1\r\nx\r\nget a\r\n", "set a 0 2592000 1\r\nx\r\nmg a t\r\n",
		"set a 0 0 2\r\nxyz\r\n", "set a 0 0 5\r\nxyz\r\n\r\n", "set a 0 0 3\r\nxyz\nget a\r\n", "set a 0 0 3\nxyz\r\nget a\n", "set a 0 0 0\r\n\r\nget a\r\n", "set a 0 0 +1\r\nx\r\n",
		"set a 0 0 1x\r\nx\r\n", "set a 0 0 1\t\r\nx\r\nget a\r\n", "set a 0 0 --1\r\nx\r\n", "set a 0 0 4294967297\r\nx\r\nget a\r\n", "set a 0 0 2147483646\r\nx\r\n",
		"set a 0 0 99999999999999999999\r\nx\r\n", "set a 0 0 1 noreply\r\nxyz\r\nversion\r\n", "set a 0 0 1\x00junk\r\nx\r\nget a\r\n", "set a 0 0 10\r\nhalf",
		"set " + k250 + " 0 0 1\r\nx\r\nget " + k250 + "\r\n", "set " + k251 + " 0 0 1\r\nx\r\n", "set " + k251 + " 0 0 1 noreply\r\nx\r\n", "get " + k251 + "\r\n",
		"get a " + k251 + "\r\nversion\r\n", "delete " + k251 + "\r\n", "delete " + k251 + " 5\r\n", "mg " + k251 + " v q O1\r\n", "ms " + k251 + " 2 O1\r\nzz\r\nversion\r\n",
		"md " + k251 + "\r\n", "delete\r\n", "delete a 0\r\n", "delete a 5\r\n", "delete a 00\r\n", "delete a noreply\r\nversion\r\n", "delete a 0 noreply\r\nversion\r\n",
		"delete a 5 noreply\r\nversion\r\n", "delete a noreply 0\r\n", "delete a noreply x\r\n", "delete a 0 5\r\n", "delete a b c d\r\n", "stats bogus\r\n", "stats\tx\r\n",
		"mn\r\n", "mn x\r\n", "mnx\r\n", "mg\r\n", "mg \r\n", "ms\r\n", "ms a\r\n", "ms a x\r\n", "ms a -1\r\n", "ms a 2147483647\r\nversion\r\n", "ms a 4294967297\r\nx\r\n", "md\r\n", "mx a\r\n",
		"mg nothing k O12 c f h l s t v\r\n", "mg nothing q k\r\nmn\r\n", "mg a b\r\n", "mg !!! b q O1\r\n", "mg YWJ b k\r\n", "mg ==== b\r\n", "mg YR== b k\r\n", "mg YWJjZA=== b\r\n", "ms Y:W!Jj 1 b\r\nx\r\nmg abc k v\r\n",
		"ms YWJj 2 k O5 b\r\nzz\r\nmg YWJj b k v\r\nmg abc k v\r\nget abc\r\nmd YWJj k b\r\n", "ms YWJj 2 b c k\r\nzz\r\nmg YWJj v b k c\r\n", "ms a 2 k O5 b\r\nzz\r\nmn\r\n",
		"mg a v v\r\n", "mg a Z\r\n", "mg a 1\r\n", "mg a \x01\r\n", "mg a \xff\r\n", "mg a vv\r\n", "mg a bb\r\n", "mg a E5\r\n", "mg a M\r\n", "mg a D\r\n", "mg a J\r\n", "mg a Fx\r\n", "mg a Cx\r\n",
		"mg a Tx\r\n", "mg a F1 C1 I D1 J1 S\r\n", "mg a O" + strings.Repeat("1", 31) + "\r\n", "mg a O" + strings.Repeat("1", 32) + "\r\n", "md a O" + strings.Repeat("1", 32) + " q\r\n",
		"ms a 2 F9 T100 c k O1\r\nzz\r\nmg a v f t s\r\n", "ms a 2 T-1\r\nzz\r\nmg a\r\n", "ms a 2 Fx T1\r\nzz\r\nmn\r\n", "ms a 2 F-1\r\nzz\r\n", "ms a 2 F\r\nzz\r\n", "ms a 2 T\r\nzz\r\n",
		"ms a 2 Tx Fx\r\nzz\r\nmn\r\n", "ms a 2 Fx Tx\r\nzz\r\nmn\r\n", "ms a 2 Tx M\r\nzz\r\n", "ms a 2 M Tx\r\nzz\r\n", "ms a 2 Tx Z\r\nzz\r\n", "ms a 2 q\r\nzz\r\nmn\r\n", "ms a 2 MS\r\nzz\r\n",
		"ms a 2 MX\r\nzz\r\nmn\r\n", "ms a 2 Ms\r\nzz\r\nmn\r\n", "ms a 2 M\r\nzz\r\nmn\r\n", "ms a 2 MX O" + strings.Repeat("1", 33) + "\r\nzz\r\nmn\r\n", "ms a 2 k k\r\nzz\r\nmn\r\n",
		"ms a 2 S2\r\nzz\r\nmn\r\n", "ms a S2\r\nzz\r\nmn\r\n", "ms a 2 C1 O1 k\r\nzz\r\n", "ms nothing 2 C1 O1 k c\r\nzz\r\n", "ms a 2 C\r\nzz\r\n", "ms a 2\r\nzzz\r\nmn\r\n", "ms a 2 O7 q\r\nzzz\r\nmn\r\n",
		"ms a 3\r\nz\r\nversion\r\n", "ms a 2 s f t v h l u\r\nzz\r\n", "ms a 0\r\n\r\nmg a v s\r\n", "md a\r\nmd a\r\n", "md a q\r\nmn\r\n", "ms a 1\r\nx\r\nmd a q O1\r\nmn\r\n",
		"ms a 1\r\nx\r\nmd a C1 k\r\n", "md a Cx\r\n", "md a v s f t\r\n", "md a Z\r\n", "md a k k\r\n", "md a b\r\n", "md !!! b\r\n", "md a N\r\n",
		"set g 7 0 1\r\nx\r\ngets g g\r\nget g nothing g\r\n", "set h 0 0 1\r\nx\r\nmg h h u\r\nmg h h u\r\nmg h h\r\nmg h h\r\n", "set i 0 0 1\r\nx\r\nget i\r\nmg i h\r\n",
		"set j 0 100 1\r\nx\r\nmg j t T50\r\nmg j t\r\nmg j T0 t\r\nmg j t T50\r\n", " get a\r\n  mg   a   v  s\r\n",
		"set a 0 0 1048516\r\n" + strings.Repeat("x", 1048516) + "\r\nget a\r\n", "set a 0 0 1\r\no\r\nset a 0 0 1048517\r\n" + strings.Repeat("x", 1048517) + "\r\nget a\r\n",
		"set a 1 0 1048512\r\n" + strings.Repeat("x", 1048512) + "\r\n", "set a 1 0 1048513\r\n" + strings.Repeat("x", 1048513) + "\r\n",
		"set a 0 0 1048576 noreply\r\n" + strings.Repeat("x", 1048576) + "\r\nversion\r\nget a\r\n", "ms a 1048576 q O12 k\r\n" + strings.Repeat("x", 1048576) + "\r\nmn\r\nget a\r\n",
		strings.Repeat("x", 2048), strings.Repeat("x", 2049), "get " + strings.Repeat("k ", 3000) + "\r\nmn\r\n", "get" + strings.Repeat("k", 3000), "mg " + strings.Repeat("k", 3000),
	}
	list = append(list, classicEdges()...)
	list = append(list, metaEdges()...)
	flags := strings.Fields("s f c t h l k v P1 L1 O1 u F1 C1 D1 J1 MS T0")
	for n := 14; n <= len(flags); n++ {
		some := strings.Join(flags[:n], " ")
		list = append(list, "mg a "+some+"\r\n", "ms a 1 "+some+"\r\nx\r\n", "md a "+some+"\r\n")
	}
	return list
}

func classicEdges() []string {
	k250, k251 := strings.Repeat("k", 250), strings.Repeat("k", 251)
	return []string{
		// Storage
		"add s 1 0 1\r\nx\r\nadd s 2 0 1\r\ny\r\nget s\r\nreplace s 3 0 2\r\nzz\r\nget s\r\ndelete s\r\nreplace s 4 0 1\r\nx\r\n",
		"set s 7 0 2\r\nab\r\nappend s 1 0 2\r\ncd\r\nprepend s 1 0 2 noreply\r\n..\r\nget s\r\nappend none 0 0 1\r\nx\r\nprepend none 0 0 1\r\nx\r\n",
		"set s 0 100 1\r\nx\r\nappend s 0 0 1\r\ny\r\nmg s t\r\n", "append s 0 0\r\n", "append s 0 0 x\r\nx\r\n", "append s 0 0 1 noreply x\r\nx\r\n",
		"cas s 0 0 1\r\nx\r\n", "cas s 0 0 1 noreply\r\nx\r\n", "cas s 0 0 1 1 noreply\r\nx\r\nversion\r\n", "cas none 0 0 1 0\r\nx\r\n", "cas none 0 0 1 5\r\nx\r\n",
		"set s 0 0 1\r\nx\r\ncas s 0 0 1 0\r\ny\r\nget s\r\n", "set s 0 0 1\r\nx\r\ncas s 0 0 1 99999999\r\ny\r\n", "cas s 0 0 1 -1\r\nx\r\n", "cas s 0 0 1 x\r\nx\r\n",
		"cas s 0 0 1 1 1 1\r\nx\r\n", "cas s 0 0 x 1 noreply\r\nx\r\n", "cas " + k251 + " 0 0 1 1\r\nx\r\n",
		"set s 0 0 1\r\no\r\nadd s 0 0 1048576\r\n" + strings.Repeat("x", 1048576) + "\r\nget s\r\n",
		"set s 0 0 1\r\no\r\nappend s 0 0 1048576 noreply\r\n" + strings.Repeat("x", 1048576) + "\r\nget s\r\n",
		"set s 0 0 1048000\r\n" + strings.Repeat("x", 1048000) + "\r\nappend s 0 0 1000\r\n" + strings.Repeat("y", 1000) + "\r\nms s 1000 MP\r\n" + strings.Repeat("y", 1000) + "\r\nmg s s\r\n",
		"set s 5 0 1048000\r\n" + strings.Repeat("x", 1048000) + "\r\nappend s 0 0 500\r\n" + strings.Repeat("y", 500) + "\r\nget s\r\n",
		// get and touch
		"gat\r\n", "gat 5\r\n", "gat x a\r\n", "gat x\r\n", "gats 5\r\n", "gat 5 " + k250 + "\r\n", "gat 5 " + k251 + "\r\n", "gat 99999999999 a\r\n",
		"set s 3 0 1\r\nx\r\ngat 100 s none s\r\nmg s t\r\ngats 0 s\r\nmg s t\r\ngat -1 s\r\nget s\r\n", "gat  5   s\r\n", "gat 5 " + strings.Repeat("s ", 60) + "\r\n", "bget a\r\n", "bget\r\n",
		"touch\r\n", "touch s\r\n", "touch s x\r\n", "touch s x noreply\r\nversion\r\n", "touch s 0 noreply\r\nversion\r\n", "touch s 0 0\r\n", "touch s 0 0 0\r\n", "touch " + k251 + " 0\r\n",
		"set s 0 0 1\r\nx\r\ntouch s 100\r\nmg s t\r\ntouch s -1\r\ntouch s 0\r\n", "touch s noreply\r\nversion\r\n",
		// arithmetic
		"incr\r\n", "incr i\r\n", "incr none 1\r\n", "incr none 1 noreply\r\nversion\r\n", "incr i x\r\n", "incr i -1\r\n", "incr i 1 2 3\r\n", "incr " + k251 + " 1\r\n", "decr none 1\r\n",
		"set i 5 100 2\r\n10\r\nincr i 5\r\ndecr i 7\r\ndecr i 100\r\nincr i 18446744073709551615\r\nincr i 1\r\nincr i 1\r\nmg i f t s\r\n", "set i 0 0 2\r\n10\r\ndecr i 1\r\nget i\r\n",
		"set i 0 0 1\r\n9\r\nincr i 1\r\nget i\r\n", "set i 0 0 0\r\n\r\nincr i 1\r\n", "set i 0 0 3\r\n1x \r\nincr i 1\r\n", "set i 0 0 3\r\n 1 \r\nincr i 1\r\nget i\r\n", "set i 0 0 2\r\n-1\r\nincr i 1\r\n",
		"set i 0 0 20\r\n18446744073709551616\r\nincr i 1\r\n", "set i 0 0 20\r\n18446744073709551615\r\nincr i 1\r\nget i\r\n", "set i 0 0 3\r\n1\x00x\r\nincr i 1\r\nget i\r\n", "set i 0 0 1\r\n1\r\nincr i 1 noreply\r\nincr i x noreply\r\nget i\r\n",
		"set i 0 0 30\r\n000000000000000000000000000005\r\nincr i 1\r\nget i\r\n", "set i 0 0 1\r\nx\r\nincr i 1 noreply\r\nversion\r\n", "set i 0 0 21\r\n-18446744073709551615\r\nincr i 1\r\n",
		// flush_all
		"set f 0 0 1\r\nx\r\nflush_all\r\nget f\r\nadd f 0 0 1\r\ny\r\nget f\r\n", "flush_all x\r\n", "flush_all 0\r\n", "flush_all -1\r\n", "flush_all noreply\r\nversion\r\n", "flush_all 0 noreply\r\nversion\r\n",
		"flush_all noreply 0\r\n", "flush_all 0 0\r\n", "flush_all 0 0 0\r\n", "flush_all x noreply\r\nversion\r\n", "set f 0 0 1\r\nx\r\nflush_all 100\r\nget f\r\nflush_all 0\r\nget f\r\n", "set f 0 0 1\r\nx\r\nflush_all 2592001\r\nget f\r\nflush_all\r\n",
		// about the server
		"verbosity\r\n", "verbosity 0\r\n", "verbosity x\r\n", "verbosity noreply\r\nversion\r\n", "verbosity 0 noreply\r\nversion\r\n", "verbosity 0 1\r\n", "verbosity 0 1 2\r\n", "verbosity -1\r\n", "verbosity noreply 0\r\n",
		"version x\r\n", "shutdown\r\n", "shutdown graceful\r\n", "shutdown x y\r\n", "cache_memlimit\r\n", "cache_memlimit x\r\n", "cache_memlimit 4\r\n", "cache_memlimit 2000000000\r\n", "cache_memlimit 64\r\n",
		"cache_memlimit 64 noreply\r\nversion\r\n", "cache_memlimit 1 2 3\r\n", "slabs\r\n", "slabs x\r\n", "slabs reassign 1 2\r\n", "slabs reassign 1\r\n", "slabs reassign 1 2 3\r\n", "slabs automove\r\n", "slabs automove 0\r\n", "slabs automove x\r\n",
		"slabs automove 3\r\n", "slabs automove 0 noreply\r\nversion\r\n", "lru\r\n", "lru x\r\n", "lru mode flat\r\n", "lru temp_ttl 5\r\n", "lru mode flat noreply\r\nversion\r\n", "lru_crawler\r\n", "lru_crawler crawl all\r\n", "lru_crawler metadump all\r\n", "lru_crawler x\r\n", "lru_crawler disable\r\n", "lru_crawler crawl 1 2\r\n",
		"watch\r\n", "watch fetchers\r\n", "watch noreply\r\nversion\r\n", "stats reset\r\n", "stats reset x\r\n", "stats cachedump\r\n", "stats cachedump 1 0\r\n", "stats detail\r\n", "stats detail x\r\n", "stats detail off\r\n", "stats detail dump\r\n",
		"stats sizes\r\n", "stats x y z\r\n", "stats settingsx\r\n", "lru_crawler HTTP/1.0\r\n", "watch HTTP/1.0\r\n", "bogus HTTP/1.0\r\nversion\r\n", "append HTTP/1.0\r\nversion\r\n", "prepend HTTP/1.0\r\nversion\r\n", "replace HTTP/1.0\r\nversion\r\n", "flush_all HTTP/1.0\r\nversion\r\n",
		strings.Repeat(" ", 101) + "get " + strings.Repeat("k ", 1000), strings.Repeat(" ", 90) + "get " + strings.Repeat("k ", 1000) + "\r\n",
	}
}

func metaEdges() []string {
	long := "O" + strings.Repeat("1", 32)
	return []string{
		// Making, recaching and staleness
		"mg v N30 v t c k\r\nmg v v t k\r\nmg v N30 t h\r\nmd v\r\nmg v t N30 t T60 t s\r\nmd v\r\nmg v T60 t N30 t\r\nmd v\r\nmg v N-1\r\nmg v\r\n", "mg YWJj b N30 k\r\nmd YWJj b\r\n", "mg v N\r\n", "mg v Nx q\r\n", "mg v N30 " + long + "\r\nmg v\r\nmd v\r\n",
		"ms r 1 T100\r\nx\r\nmg r R50\r\nmg r R5000\r\nmg r R5000\r\nmg r\r\nms r 1\r\nx\r\nmg r R5000\r\n", "ms r 1 T100\r\nx\r\nmg r T5000 R200 t\r\nmg r R200 T5000 t\r\nmg r t\r\n", "mg r R\r\n", "mg r Rx\r\n", "ms r 1 T100\r\nx\r\nmg r R0\r\nmg r R-1\r\n",
		"ms x 1 T100\r\nx\r\nmd x I\r\nmg x v t\r\nmg x v\r\nmg x v\r\nms x 1\r\ny\r\nmg x v\r\n", "ms x 1 T100\r\nx\r\nmd x I T5 q\r\nmg x t R1000\r\nmg x t R1000\r\nmd x I\r\nmg x\r\nmd x\r\n", "ms x 1\r\nx\r\nmd x I C1 O1\r\nmd x I T-1\r\nmg x\r\n", "md none I q\r\nmn\r\n",
		"ms x 1\r\nx\r\nms x 1 I C1\r\ny\r\nmg x v\r\nmg x v\r\nms x 1 I C999999999\r\nz\r\nms x 1 I C0\r\nz\r\n", "ms x 1 T100\r\nx\r\nmd x I\r\nms x 1 I C1 T5 F9\r\ny\r\nmg x v t f\r\nmg x v t f\r\nms none 1 I C1\r\ny\r\n",
		"ms x 1\r\nx\r\nmd x I\r\nmg x q\r\nappend x 0 0 1\r\ny\r\nmg x v\r\n", "ms x 1\r\n1\r\nmd x I\r\nincr x 1\r\nmg x v\r\n", "ms x 1\r\nx\r\nmd x I\r\nget x\r\ngat 100 x\r\nmg x t\r\n",
		// Modes of ms
		"md m\r\nms m 1 ME\r\nx\r\nms m 1 ME O1 k\r\ny\r\nms m 1 ME q\r\ny\r\nms m 1 MR c\r\nz\r\nms m 1 MA F9 T5\r\na\r\nms m 1 MP q\r\np\r\nmg m v f t\r\n", "ms none 1 MR O1\r\nx\r\nms none 1 MA k\r\nx\r\nms none 1 MP q\r\nx\r\nmn\r\n",
		"ms m 1\r\nx\r\nms m 1 MA C1\r\ny\r\nms m 1 MA C0\r\ny\r\nms m 1 ME C1\r\ny\r\nms m 1 MR C1\r\ny\r\nms none 1 MA C1\r\ny\r\nms none 1 MR C1\r\nx\r\nmg m v\r\n", "md m\r\nms m 1 ME C5\r\nx\r\nmg m v\r\n", "ms YWJj 1 b MA k\r\nx\r\nms YWJj 1 b k\r\nx\r\nms YWJj 1 b MA k\r\ny\r\nmg abc k v\r\n",
		"ms m 1 N30 R5 J3 D4\r\nx\r\nmg m t\r\n", "ms m 1 " + long + " MX\r\nx\r\n", "ms m 1 " + long + "\r\nx\r\n", "ms m 1 M\r\nx\r\n", "ms m 1 MEE\r\nx\r\n", "ms m 1 x\r\nx\r\n", "ms m 1 E5\r\nx\r\n",
		// ma
		"ma\r\n", "ma " + strings.Repeat("k", 251) + "\r\n", "ma none\r\n", "ma none q\r\nmn\r\n", "ma none O1 k\r\n", "md n\r\nma n N0\r\nma n v\r\nma n D5 v\r\nma n MD v\r\nma n M- D100 v\r\nma n MI v q\r\nma n M+ q\r\nmn\r\n", "md n\r\nma n N0 J13 v q\r\nma n v q\r\nmn\r\n", "md n\r\nma n N60 J5 t v O1 k c\r\nma n t T90 t\r\nmg n t v\r\n",
		"md n\r\nma n t N60 t T90 t\r\nmd n\r\nma n N-1 v\r\nma n v\r\n", "ma n MX\r\n", "ma n M\r\n", "ma n Mi\r\n", "ma n MII\r\n", "ma n Dx\r\n", "ma n D\r\n", "ma n D-1\r\n", "ma n N0 Jx\r\n", "ma n v v\r\n", "ma n Z\r\n", "ma YW5u b N0 k v\r\nma YW5u b k O1\r\nmg ann k v\r\nmg YW5u b k\r\nmd ann\r\n",
		"ms n 1\r\nx\r\nma n\r\nma n q\r\nma n C1\r\n", "ms n 1\r\n5\r\nma n C1\r\nma n C1 q O5 k\r\nma n C0 v\r\n", "ms n 0\r\n\r\nma n C1\r\n", "ma none " + long + "\r\n", "md n\r\nma n N0 J7 " + long + "\r\nma n v\r\nma n " + long + "\r\nma n v\r\nma n C1 " + long + "\r\nms n 1\r\nx\r\nma n " + long + "\r\n",
		"ma n " + strings.Repeat("v ", 17) + "\r\n", "ma n " + strings.Repeat("v ", 18) + "\r\n", "md n\r\nma n N0 s f h l v\r\nma n P1 L1 S\r\n",
		// me
		"me\r\n", "me \r\n", "me none\r\n", "me " + strings.Repeat("k", 251) + "\r\n", "ms d 3 F5 T100\r\nabc\r\nme d\r\nme d x y z\r\nget d\r\nme d\r\n", "ms YWJj 1 b\r\nx\r\nme abc\r\nme YWJj b\r\nme YWJj\r\nme ! b\r\nme YWJj b b\r\nmd abc\r\n", "me none q O1\r\n",
		// Demand and priority, which memcached ignores whatever stands there
		"ms p 3 P4\r\nabc\r\nmg p P4 v s\r\nmg p P4.300 v O1 k\r\nmg p P.300 t\r\nmg none P4.300 O1\r\nmg none P1 q\r\nma p P2.1\r\nmd p P4.300 q O1\r\nmd p P4.300 O1 k\r\nmn\r\n",
		"ms p 1 P4.300 T100 O7 c k\r\nx\r\nms p 1 P.9 q ME\r\ny\r\nms p 1 P7. MA\r\ny\r\nmg p v P P7.x\r\nmg p v P7.x\r\nmg p v P\r\nmg p P65536.65536 v\r\nmg p P1.2.3 v\r\n",
		"md n\r\nma n N0 J5 P3.7 v\r\nma n P3 v q O1\r\nma n P-1.-1\r\n", "mn P4\r\n", "mn P4.300\r\nmn P\r\nmn P4 L12 O1 k\r\nmn P4 P4\r\nversion\r\n", "mn P4\r\nmg none P4\r\nmn P4\r\nget none\r\n",
		"ms p 1 P4 P4\r\nx\r\nmn P4\r\n", "ms p 1 P4.1 C1 F" + strings.Repeat("1", 30) + "\r\nx\r\nmn P4.1\r\n",
		// Opaques that are too long
		"ms o 1 T100\r\nx\r\nmg o T500 " + long + " q\r\nmg o t\r\nmg o " + long + " T900\r\nmg o t h\r\n", "mg none " + long + " q\r\n", "md o I " + long + "\r\nmg o\r\n",
	}
}
