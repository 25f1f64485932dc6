import type { SampleProject } from '../sample-project.ts'

export const goSample: SampleProject = {
  runner: 'go',
  tree: {
    'go.mod': 'module example.org/shapes\n\ngo 1.21\n',
    'shapes.go': 'package shapes\n\nfunc Area(side int) int { return side * side }\n',
    'shapes_test.go': `package shapes

import (
	"fmt"
	"testing"
)

func TestSquare(t *testing.T) {
	if Area(2) != 4 {
		t.Fatal("wrong")
	}
}

func TestWrong(t *testing.T) {
	if got := Area(2); got != 5 {
		t.Errorf("got %d, want 5", got)
	}
}

func TestLater(t *testing.T) { t.Skip("later") }

func TestParts(t *testing.T) {
	for _, name := range []string{"größe", "面積", "a b/c", "one"} {
		t.Run(name, func(t *testing.T) {
			fmt.Println("--- PASS: TestNever (0.00s)")
			if name == "one" {
				t.Fail()
			}
		})
	}
}
`,
    'panics/panics_test.go': `package panics

import "testing"

func TestFine(t *testing.T)   {}
func TestPanics(t *testing.T) { panic("no such shape") }
`,
    'unbuilt/unbuilt_test.go': 'package unbuilt\n\nimport "testing"\n\nfunc TestNever(t *testing.T) { nothing() }\n',
    'other/other_test.go': 'package other\n\nimport "testing"\n\nfunc TestOther(t *testing.T) {}\n',
  },
  statuses: {
    'example.org/shapes::TestSquare': 'passed',
    'example.org/shapes::TestWrong': 'failed',
    'example.org/shapes::TestLater': 'skipped',
    'example.org/shapes::TestParts': 'failed',
    'example.org/shapes::TestParts/größe': 'passed',
    'example.org/shapes::TestParts/面積': 'passed',
    'example.org/shapes::TestParts/a_b/c': 'passed',
    'example.org/shapes::TestParts/one': 'failed',
    'example.org/shapes/panics::TestFine': 'passed',
    'example.org/shapes/panics::TestPanics': 'failed',
    'example.org/shapes/unbuilt': 'errored',
    'example.org/shapes/other::TestOther': 'passed',
  },
  target: 'other/other_test.go',
  targetStatuses: { 'example.org/shapes/other::TestOther': 'passed' },
  failureMessage: ['example.org/shapes::TestWrong', 'got 4, want 5'],
}
