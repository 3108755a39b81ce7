package credit_test

import (
	"testing"

	"spillway/control/controltest"
)

func TestTranscripts(t *testing.T) { controltest.Run(t, "testdata") }
