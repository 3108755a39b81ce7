package profiles

import (
	"fmt"
	"slices"

	"spillway/internal/dist"
	"spillway/workloads"
)

const kindMailbox = "mailbox"

// mailboxKeys are the keys of classes that the kind mailbox shares with kv.
var mailboxKeys = []string{"key", "keys", "popularity"}

// MailboxClasses returns the classes of a mailbox workload in the form that workloads.NewMailboxLoad takes. A class has mailboxes (keys), or
// work of one memory step and one wait step: memory that is taken for a time without a mailbox.
func (w *Workload) MailboxClasses() ([]workloads.MailboxClass, error) {
	if w.Kind != kindMailbox {
		return nil, fmt.Errorf("the workload is of kind %s, not mailbox", w.Kind)
	}
	var list []workloads.MailboxClass
	for i := range w.Classes {
		c := &w.Classes[i]
		k := workloads.MailboxClass{Name: c.Name, Share: c.Share, SLO: c.SLO.Limit, Prefix: c.Key, Boxes: c.Keys, Popularity: c.Popularity}
		if c.Work != nil {
			var err error
			if k.Bytes, k.Hold, err = holding(c.Work); err != nil {
				return nil, fmt.Errorf("class %s: %w", c.Name, err)
			}
		}
		list = append(list, k)
	}
	return list, nil
}

// holding reads work that is memory held for a time.
func holding(work []Step) (bytes, hold dist.Dist, err error) {
	if len(work) != 2 || work[0].Memory == "" || work[1].Wait == "" {
		return nil, nil, fmt.Errorf("work of the kind mailbox is memory held for a time: [{memory: 150MB}, {wait: 5s}]")
	}
	if bytes, err = dist.Parse(work[0].Memory, dist.Bytes); err != nil {
		return nil, nil, err
	}
	hold, err = dist.Parse(work[1].Wait, dist.Nanoseconds)
	return bytes, hold, err
}

// mailbox lets the workload itself judge its classes. The sizes of mailboxes are the server's, so those of the default stand in for them.
func (c *checker) mailbox(w *Workload) {
	classes, err := w.MailboxClasses()
	if err == nil {
		_, err = workloads.NewMailboxLoad(workloads.DefaultMailboxes(), classes)
	}
	if err != nil {
		c.fail("workload.classes", "%v", err)
	}
}

// sharesKey reports whether classes of a kind other than kv may have a key that is otherwise for kv.
func sharesKey(kind, key string) bool {
	return kind == kindMailbox && slices.Contains(mailboxKeys, key) || kind == kindGraph && key == "popularity" || kind == kindDataFrame && key == "op" || kind == kindReplay && key == "key"
}
