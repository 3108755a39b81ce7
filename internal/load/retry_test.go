package load_test

import (
	"math"
	"testing"

	"spillway/internal/load"
)

// TestSavings: what requests earn is spent once, ten are saved at most, and a tenth ten times is a whole.
func TestSavings(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		budget   float64
		requests int
		want     int
	}{{0.1, 9, 0}, {0.1, 10, 1}, {0.1, 1000, 10}, {1, 3, 3}, {1, 30, 10}, {0, 1000, 0}, {1.0 / 3, 3, 1}, {0.25, 39, 9}} {
		s := (&load.Retry{Budget: tt.budget}).Savings(2)
		for range tt.requests {
			s.Earn(1)
		}
		if s.Has(0) {
			t.Errorf("%+v: the other client has earned something", tt)
		}
		got := 0
		for ; s.Has(1); got++ {
			s.Spend(1)
		}
		if got != tt.want {
			t.Errorf("%+v: %d retries", tt, got)
		}
	}
	var nobody *load.Retry
	s := nobody.Savings(3)
	if s.Earn(0); s.Has(0) {
		t.Error("somebody has a retry where nobody retries")
	}
}

func TestPrimary(t *testing.T) {
	t.Parallel()
	var spread *load.Retry
	first := &load.Retry{First: true}
	for client := range uint64(7) {
		if spread.Primary(client, 3) != uint8(client%3) || first.Primary(client, 3) != 0 || spread.Primary(client, 1) != 0 {
			t.Errorf("client %d: %d, %d and %d", client, spread.Primary(client, 3), first.Primary(client, 3), spread.Primary(client, 1))
		}
	}
}

func TestRetryCheck(t *testing.T) {
	t.Parallel()
	for _, bad := range []struct {
		budget  float64
		servers int
	}{{0.1, 1}, {-0.1, 2}, {1.1, 2}, {math.NaN(), 2}} {
		if (&load.Retry{Budget: bad.budget}).Check(bad.servers) == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
	if err := (&load.Retry{Budget: 1}).Check(2); err != nil {
		t.Error(err)
	}
}
