package credit

import (
	"testing"

	"pgregory.net/rapid"

	"spillway/control"
)

// walletModel is what must be true of a Wallet, in the plainest terms.
type walletModel struct {
	wallet                  Wallet
	under, credits, waiting int
	met, limited            bool
}

// hear tells the wallet, and the model.
func (m *walletModel) hear(n control.Notice) {
	m.wallet.Hear(0, n)
	switch {
	case n.Kind == control.Parted:
		m.credits, m.met, m.limited = 0, false, true
	case n.Kind == control.Lost:
	case n.Credits >= 0:
		m.credits, m.met, m.limited = n.Credits, true, true
	case !m.met:
		m.met, m.limited = true, false
	}
}

func (m *walletModel) step(t *rapid.T) {
	credits := rapid.IntRange(-1, 5).Draw(t, "credits")
	switch rapid.SampledFrom([]string{"permit", "permit", "permit", "reply", "reply", "lose", "told", "part", "wait"}).Draw(t, "event") {
	case "permit":
		leaves := m.wallet.Permit(0, &control.Outgoing{}) == control.Admit
		if leaves != (!m.limited || m.under < m.credits) {
			t.Fatalf("leaves: %v with %d of %d under way", leaves, m.under, m.credits)
		}
		if leaves {
			m.under++
		}
	case "reply":
		if m.under > 0 {
			m.under--
			m.hear(control.Notice{Kind: control.Replied, Credits: credits})
		}
	case "lose":
		if m.under > 0 {
			m.under--
			m.hear(control.Notice{Kind: control.Lost, Credits: credits})
		}
	case "told":
		m.hear(control.Notice{Kind: control.Told, Credits: credits})
	case "part":
		m.hear(control.Notice{Kind: control.Parted, Credits: -1})
	case "wait":
		m.waiting = rapid.IntRange(0, 3).Draw(t, "waiting")
	}
	if m.wallet.Used() != m.under || m.wallet.Credits() != m.credits {
		t.Fatalf("%d under way with %d credits, want %d and %d", m.wallet.Used(), m.wallet.Credits(), m.under, m.credits)
	}
	open := m.wallet.questions
	asks := m.wallet.Ask(0, m.waiting)
	drained := m.limited && m.under == 0 && m.credits == 0
	switch {
	case asks && !drained:
		t.Fatalf("it asks, though it has %d of %d under way", m.under, m.credits)
	case asks && !m.met && m.waiting == 0:
		t.Fatal("it asks a server that it has not met, for nothing")
	case asks && open > 1:
		t.Fatal("it asks a third time")
	case drained && m.waiting > 0 && m.wallet.questions == 0:
		t.Fatal("it has requests, nothing under way and no question open: nobody will ever tell it of a credit")
	case m.wallet.Ask(0, m.waiting):
		t.Fatal("it asks twice at once")
	}
}

// TestWalletKeepsBooks: whatever is heard in whatever order, no request leaves beyond the credits last heard of, as many are under way as have left
// and are not heard of, and who can hear of a credit by no reply has a question open, two at the most.
func TestWalletKeepsBooks(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := &walletModel{limited: true}
		for range rapid.IntRange(1, 200).Draw(t, "events") {
			m.step(t)
		}
	})
}
