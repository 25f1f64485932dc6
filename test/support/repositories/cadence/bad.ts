import type { SamplePull, SamplePush } from '../repository.ts'

const NOT_YET = 'Tests that can be relied on'

/** Pull requests that pass screening and must be rejected when they are executed. */
export const bad: readonly (SamplePull | SamplePush)[] = [
  {
    number: 10,
    title: 'Minutes without a second split',
    edits: {
      'window/window.go': [
        [
          '	if errH != nil || errM != nil || h < 0 || h > 23 || m < 0 || m > 59 {\n',
          '	if errH != nil || errM != nil {\n		return 0, fmt.Errorf("not a time of the day: %q", text)\n	}\n	if h < 0 || h > 23 || m < 0 || m > 59 {\n',
        ],
      ],
      'window/window_test.go': [
        [
          'func TestParse(t *testing.T) {',
          'func TestMinutesOfMidnight(t *testing.T) {\n	if got, err := Minutes("00:00"); err != nil || got != 0 {\n		t.Fatalf("got %d, %v", got, err)\n	}\n}\n\nfunc TestParse(t *testing.T) {',
        ],
      ],
    },
    expected: 'no_f2p',
    difficulty: 'easy',
  },
  {
    number: 11,
    title: 'Count to five in words',
    edits: {
      'report/report.go': [
        [
          '	words := []string{"no", "one", "two", "three"}\n',
          '	words := []string{"none", "one", "two", "three", "four", "five"}\n',
        ],
        ['	return "many"\n', '	return "very many"\n'],
      ],
      'report/count_test.go': `package report

import "testing"

func TestCountToFive(t *testing.T) {
	if Count(4) != "four" || Count(5) != "five" {
		t.Error("numbers are words up to five")
	}
}
`,
    },
    expected: 'p2f',
    difficulty: 'easy',
  },
  {
    message: 'Count to three again',
    edits: {
      'report/report.go': [
        ['"none", "one", "two", "three", "four", "five"', '"no", "one", "two", "three"'],
        ['	return "very many"\n', '	return "many"\n'],
      ],
      'report/count_test.go': null,
    },
  },
  {
    number: 12,
    title: 'Plurals of words that end in y',
    edits: {
      'report/report.go': [
        [
          '	return strings.TrimSpace(',
          '	if strings.HasSuffix(word, "y") {\n		return Count(count) + " " + strings.TrimSuffix(word, "y") + "ies"\n	}\n	return strings.TrimSpace(',
        ],
      ],
      // Each fails in one run of five, so that three runs without a failure do not happen.
      'report/plural_test.go': `package report

import (
	"fmt"
	"math/rand"
	"testing"
)

func TestPluralOfMany(t *testing.T) {
	for count := 2; count < 26; count++ {
		t.Run(fmt.Sprint(count), func(t *testing.T) {
			if got := Plural(count, "entry"); got != Count(count)+" entries" {
				t.Errorf("got %q", got)
			}
			if rand.Float64() < 0.2 {
				t.Error("not this time")
			}
		})
	}
}
`,
    },
    expected: 'flaky_f2p',
    difficulty: 'easy',
  },
  { message: NOT_YET, edits: { 'report/plural_test.go': null } },
  {
    number: 13,
    title: 'Refuse what makes no sense',
    edits: {
      'window/window.go': [
        [
          '	from, to, found := strings.Cut(text, "-")\n',
          '	if len(text) > 64 {\n		return Window{}, fmt.Errorf("a window is shorter: %d", len(text))\n	}\n	from, to, found := strings.Cut(text, "-")\n',
        ],
      ],
      'schedule/schedule.go': [
        ['step < time.Second {', 'step < time.Second || step > 366*24*time.Hour {'],
        ['	text, quiet, isQuiet', '	text = strings.ReplaceAll(text, "\\t", " ")\n	text, quiet, isQuiet'],
      ],
      'queue/queue.go': [
        ['	heap.Push(&q.jobs, job)\n', '	if job.Name == "" {\n		return\n	}\n	heap.Push(&q.jobs, job)\n'],
      ],
      'report/report.go': [['	if count == 1 {\n', '	if count < 0 {\n		count = -count\n	}\n	if count == 1 {\n']],
      'schedule/schedule_test.go': [
        [
          'func TestWeekly(t *testing.T) {',
          'func TestNoStepOfCenturies(t *testing.T) {\n	if _, err := Parse("every 900000h"); err == nil {\n		t.Error("a step of centuries was taken")\n	}\n}\n\nfunc TestWeekly(t *testing.T) {',
        ],
      ],
    },
    expected: 'weak_tests',
    difficulty: 'medium',
  },
]

/** Rejected before anything runs. */
export const screened: readonly (SamplePull | SamplePush)[] = [
  {
    number: 40,
    title: 'New protocol',
    edits: { 'api/cadence.pb.go': 'package api\n\nconst A = 1\nconst B = 2\n' },
    expected: 'generated_only',
  },
  {
    number: 41,
    title: 'Carry what we need',
    edits: { 'vendor/example.com/x/x.go': 'package x\n\nconst X = 1\nconst Y = 2\n' },
    expected: 'generated_only',
  },
  { message: 'Need nothing', edits: { 'vendor/example.com/x/x.go': null } },
  {
    number: 42,
    title: 'A newer Go',
    edits: { 'go.mod': 'module example.org/cadence\n\ngo 1.23\n' },
    expected: 'dependencies_only',
  },
  {
    number: 43,
    title: 'Say what a step is',
    edits: { 'README.md': '# cadence\n\nA step is at least a second.\n' },
    expected: 'docs_only',
  },
  {
    number: 44,
    title: 'Try it on every push',
    edits: { '.github/workflows/test.yml': 'on: push\njobs: {}\n' },
    expected: 'no_source',
  },
  {
    number: 45,
    title: 'A door for the shell',
    edits: { 'cmd/cadence/main.go': 'package main\n\nimport "fmt"\n\nfunc main() {\n	fmt.Println("cadence")\n}\n' },
    expected: 'no_tests',
  },
]
