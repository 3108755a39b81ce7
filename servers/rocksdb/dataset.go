//go:build linux

package rocksdb

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"spillway/internal/dist"
	"spillway/workloads"
)

// Keys are keys that are loaded: a prefix, and a number behind it. Value and size of each follow from the key, as with workloads.KV.
type Keys struct {
	Prefix string `json:"prefix"`
	Count  uint64 `json:"count"`
	Size   int    `json:"size,omitempty"` // of a key, padded with zeros; 0 for the prefix and 16 digits
	Sizes  string `json:"sizes,omitempty"`
	Value  string `json:"value"` // a distribution of bytes, as profiles write it
}

// Dataset is what a store is loaded with.
type Dataset []Keys

// Published returns the data of Svalinn's experiments with a number of small and of large values (reference §7.2). The paper has 100 000 and
// 5000.
func Published(small, large uint64) Dataset {
	return Dataset{
		{Prefix: "skey-", Count: small, Value: "uniform:5B..1000B"},
		{Prefix: "lkey-", Count: large, Value: "uniform:800kB..1200kB"},
	}
}

// datasets are those with a name.
var datasets = map[string]Dataset{"paper": Published(100_000, 5_000), "small": Published(100_000, 200)}

// ParseDataset reads the names paper and small, and keys=COUNT,prefix=TEXT,value=DIST for others; also size=N for the length of the keys, or
// sizes=DIST. DIST is last: it may have commas.
func ParseDataset(texts []string) (set Dataset, err error) {
	for _, text := range texts {
		named, known := datasets[text]
		if !known {
			keys, err := parseKeys(text)
			if err != nil {
				return nil, fmt.Errorf("load %q: %w", text, err)
			}
			named = Dataset{keys}
		}
		set = append(set, named...)
	}
	if len(set) == 0 {
		return nil, nil
	}
	_, err = set.workload()
	return set, err
}

var errKeys = errors.New("write paper, small, or keys=COUNT,prefix=TEXT,value=SIZE, where SIZE may be uniform:5B..1000B and the like, " +
	"and size=LENGTH of keys may stand before it")

func parseKeys(text string) (k Keys, err error) {
	head, value, found := strings.Cut(text, "value=")
	if !found || value == "" || !strings.HasSuffix(head, ",") {
		return k, errKeys
	}
	k.Value = value
	if at := strings.Index(head, ",sizes="); at >= 0 { // another distribution
		k.Sizes = strings.TrimSuffix(head[at+len(",sizes="):], ",")
		head = head[:at+1]
	}
	for part := range strings.SplitSeq(strings.TrimSuffix(head, ","), ",") {
		name, text, _ := strings.Cut(part, "=")
		switch name {
		case "keys":
			k.Count, err = strconv.ParseUint(text, 10, 40)
		case "prefix":
			k.Prefix = text
		case "size":
			k.Size, err = strconv.Atoi(text)
		default:
			return k, errKeys
		}
		if err != nil {
			return k, fmt.Errorf("%s: %q is no number", name, text)
		}
	}
	if k.Count == 0 || k.Prefix == "" {
		return k, errKeys
	}
	return k, nil
}

// String returns k in the form that ParseDataset reads.
func (k Keys) String() string {
	text := fmt.Sprintf("keys=%d,prefix=%s,", k.Count, k.Prefix)
	if k.Size != 0 {
		text += fmt.Sprintf("size=%d,", k.Size)
	}
	if k.Sizes != "" {
		text += "sizes=" + k.Sizes + ","
	}
	return text + "value=" + k.Value
}

// workload returns the key-value workload that reads s.
func (s Dataset) workload() (*workloads.KV, error) {
	var classes []workloads.KVClass
	for i, k := range s {
		c := workloads.KVClass{Name: strconv.Itoa(i), Share: 1 / float64(len(s)), Keys: k.Count, KeyPrefix: k.Prefix, KeySize: k.Size}
		var err error
		if c.ValueSize, err = dist.Parse(k.Value, dist.Bytes); err == nil && k.Sizes != "" {
			c.KeySizes, err = dist.Parse(k.Sizes, dist.Bytes)
		}
		if err != nil {
			return nil, fmt.Errorf("keys %s: %w", k.Prefix, err)
		}
		classes = append(classes, c)
	}
	kv, err := workloads.NewKV(classes)
	if err != nil {
		return nil, fmt.Errorf("the data to load: %w", err)
	}
	return kv, nil
}
