import type { SamplePull } from '../repository.ts'

export const good = {
  midnight: {
    number: 1,
    title: 'Windows may go over midnight',
    body: 'A window of 22:00-06:00 had no minute in it at all.\n\nCloses #14',
    edits: {
      'window/window.go': [
        [
          '	return w.From <= minute && minute < w.To\n',
          `	if w.From <= w.To {
		return w.From <= minute && minute < w.To
	}
	return minute >= w.From || minute < w.To
`,
        ],
      ],
      'window/window_test.go': [
        [
          'func TestContains(t *testing.T) {',
          `func TestContainsOverMidnight(t *testing.T) {
	night := Window{1320, 360}
	for minute, want := range map[int]bool{1320: true, 1439: true, 0: true, 359: true, 360: false, 720: false} {
		if got := night.Contains(minute); got != want {
			t.Errorf("%d: got %v", minute, got)
		}
	}
}

func TestContains(t *testing.T) {`,
        ],
      ],
    },
    expected: 'ready',
    difficulty: 'easy',
  },
  remove: {
    number: 2,
    title: 'Take a job off the queue',
    body: 'Queue.Remove takes every job of a name off and says how many there were. Queue.Peek looks at the next one.',
    isMerge: true,
    branch: 'di/remove',
    edits: {
      'queue/queue.go': [
        [
          '// Due takes every job',
          `// Remove takes every job of a name off the queue, and tells how many there were.
func (q *Queue) Remove(name string) int {
	kept := q.jobs[:0]
	removed := 0
	for _, job := range q.jobs {
		if job.Name == name {
			removed++
			continue
		}
		kept = append(kept, job)
	}
	q.jobs = kept
	heap.Init(&q.jobs)
	return removed
}

// Peek is the job that is due first, if there is one.
func (q *Queue) Peek() (Job, bool) {
	if len(q.jobs) == 0 {
		return Job{}, false
	}
	return q.jobs[0], true
}

// Due takes every job`,
        ],
      ],
      'queue/remove_test.go': `package queue

import "testing"

func TestRemove(t *testing.T) {
	var q Queue
	for minute, name := range []string{"mail", "backup", "mail", "rest"} {
		q.Add(Job{Name: name, Due: at(minute)})
	}
	if got := q.Remove("mail"); got != 2 {
		t.Fatalf("removed %d", got)
	}
	due := q.Due(at(59))
	if len(due) != 2 || due[0].Name != "backup" || due[1].Name != "rest" {
		t.Fatalf("left %v", due)
	}
}

func TestRemoveWhatIsNotThere(t *testing.T) {
	var q Queue
	if got := q.Remove("mail"); got != 0 {
		t.Fatalf("removed %d", got)
	}
}

func TestPeek(t *testing.T) {
	var q Queue
	if _, found := q.Peek(); found {
		t.Fatal("there is nothing to see")
	}
	q.Add(Job{Name: "late", Due: at(9)})
	q.Add(Job{Name: "early", Due: at(1)})
	if job, found := q.Peek(); !found || job.Name != "early" || q.Len() != 2 {
		t.Fatalf("saw %v", job)
	}
}
`,
    },
    expected: 'ready',
    difficulty: 'medium',
  },
  weekly: {
    number: 3,
    title: 'Weekly schedules',
    body: 'A schedule may be "weekly mon 08:30". Days are written with three letters, in any case.',
    edits: {
      'schedule/schedule.go': [
        ['	Step   time.Duration\n	Minute int\n', '	Step   time.Duration\n	Minute int\n	Days   []time.Weekday\n'],
        [
          '	return Schedule{}, fmt.Errorf("not a schedule: %q", text)',
          `	if word == "weekly" {
		name, clock, _ := strings.Cut(rest, " ")
		day, err := weekday(name)
		if err != nil {
			return Schedule{}, err
		}
		minute, err := window.Minutes(clock)
		return Schedule{Minute: minute, Days: []time.Weekday{day}}, err
	}
	return Schedule{}, fmt.Errorf("not a schedule: %q", text)`,
        ],
        [
          '	if !next.After(after) {\n		next = next.AddDate(0, 0, 1)\n	}\n	return next',
          '	for !next.After(after) || !s.isOn(next.Weekday()) {\n		next = next.AddDate(0, 0, 1)\n	}\n	return next',
        ],
      ],
      'schedule/days.go': `package schedule

import (
	"fmt"
	"strings"
	"time"
)

// weekday reads the first three letters of a day.
func weekday(text string) (time.Weekday, error) {
	for day := time.Sunday; day <= time.Saturday; day++ {
		if strings.EqualFold(text, day.String()[:3]) {
			return day, nil
		}
	}
	return 0, fmt.Errorf("not a day: %q", text)
}

func (s Schedule) isOn(day time.Weekday) bool {
	for _, each := range s.Days {
		if each == day {
			return true
		}
	}
	return len(s.Days) == 0
}
`,
      'schedule/schedule_test.go': [
        [
          'func TestParseRefuses(t *testing.T) {',
          `func TestWeekly(t *testing.T) {
	// The first of March 2025 is a Saturday.
	for text, want := range map[string]int{"weekly mon 08:30": 3, "weekly SAT 12:00": 8, "weekly sat 13:00": 1} {
		s, err := Parse(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if got := s.Next(noon); got.Day() != want {
			t.Errorf("%s: got %v", text, got)
		}
	}
}

func TestParseRefuses(t *testing.T) {`,
        ],
        ['"daily 25:00", "hourly"}', '"daily 25:00", "hourly", "weekly 08:30", "weekly foo 08:30"}'],
      ],
    },
    expected: 'ready',
    difficulty: 'medium',
  },
  quiet: {
    number: 4,
    title: 'Quiet hours',
    body: `Jobs that are due in quiet hours wait until these are over: "daily 23:00 quiet 22:00-06:00" is due at 06:00.

Reports mark what was put off.`,
    isMerge: true,
    branch: 'ed/quiet',
    edits: {
      'window/window.go': [
        [
          '// Contains tells',
          `// Remaining is how many minutes of the span are left at a minute of the day. None when it is not in the span.
func (w Window) Remaining(minute int) int {
	if !w.Contains(minute) {
		return 0
	}
	return (w.To - minute + 1440) % 1440
}

// Contains tells`,
        ],
      ],
      'schedule/schedule.go': [
        ['	Days   []time.Weekday\n', '	Days   []time.Weekday\n	Quiet  *window.Window\n'],
        [
          `func Parse(text string) (Schedule, error) {
	word,`,
          `func Parse(text string) (Schedule, error) {
	text, quiet, isQuiet := strings.Cut(text, " quiet ")
	schedule, err := parse(text)
	if err == nil && isQuiet {
		schedule.Quiet, err = quietHours(quiet)
	}
	return schedule, err
}

func parse(text string) (Schedule, error) {
	word,`,
        ],
        [
          '	if s.Step > 0 {\n		return after.Add(s.Step)\n	}\n',
          '	if s.Step > 0 {\n		return s.putOff(after.Add(s.Step))\n	}\n',
        ],
        ['	return next\n}\n', '	return s.putOff(next)\n}\n'],
      ],
      'schedule/quiet.go': `package schedule

import (
	"time"

	"example.org/cadence/window"
)

func quietHours(text string) (*window.Window, error) {
	hours, err := window.Parse(text)
	if err != nil {
		return nil, err
	}
	return &hours, nil
}

// putOff moves a moment to the end of the quiet hours.
func (s Schedule) putOff(due time.Time) time.Time {
	if s.Quiet == nil {
		return due
	}
	left := s.Quiet.Remaining(due.Hour()*60 + due.Minute())
	return due.Add(time.Duration(left) * time.Minute)
}
`,
      'queue/queue.go': [
        [
          '	Name string\n	Due  time.Time\n',
          '	Name string\n	Due  time.Time\n	// IsPutOff tells that quiet hours moved it.\n	IsPutOff bool\n',
        ],
        [
          'func (j jobs) Less(a, b int) bool { return j[a].Due.Before(j[b].Due) }',
          'func (j jobs) Less(a, b int) bool { return j[a].isBefore(j[b]) }',
        ],
      ],
      'queue/order.go': `package queue

// What was put off goes first among jobs of the same minute: it has waited longest.
func (j Job) isBefore(other Job) bool {
	if j.Due.Equal(other.Due) {
		return j.IsPutOff && !other.IsPutOff
	}
	return j.Due.Before(other.Due)
}
`,
      'report/report.go': [
        [
          '		lines = append(lines, job.Due.Format("15:04")+" "+job.Name)\n',
          `		line := job.Due.Format("15:04") + " " + job.Name
		if job.IsPutOff {
			line += " (put off)"
		}
		lines = append(lines, line)
`,
        ],
      ],
      'window/remaining_test.go': `package window

import "testing"

func TestRemaining(t *testing.T) {
	night := Window{1320, 360}
	for minute, want := range map[int]int{1320: 480, 0: 360, 359: 1, 360: 0, 720: 0} {
		if got := night.Remaining(minute); got != want {
			t.Errorf("%d: got %d", minute, got)
		}
	}
}
`,
      'schedule/quiet_test.go': `package schedule

import "testing"

func TestQuietHoursPutOff(t *testing.T) {
	for text, want := range map[string]int{"daily 23:00 quiet 22:00-06:00": 6, "daily 18:00 quiet 22:00-06:00": 18, "every 1h quiet 12:30-15:00": 15} {
		s, err := Parse(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if got := s.Next(noon); got.Hour() != want || got.Minute() != 0 {
			t.Errorf("%s: got %v", text, got)
		}
	}
}

func TestQuietHoursMustBeAWindow(t *testing.T) {
	if _, err := Parse("every 1h quiet please"); err == nil {
		t.Error("no window was taken")
	}
}
`,
      'queue/put_off_test.go': `package queue

import "testing"

func TestWhatWasPutOffGoesFirst(t *testing.T) {
	var q Queue
	q.Add(Job{Name: "fresh", Due: at(5)})
	q.Add(Job{Name: "old", Due: at(5), IsPutOff: true})
	if due := q.Due(at(5)); due[0].Name != "old" {
		t.Fatalf("got %v", due)
	}
}
`,
      'report/report_test.go': [
        [
          'func TestRenderNothing(t *testing.T) {',
          `func TestRenderPutOff(t *testing.T) {
	due := time.Date(2025, 3, 1, 6, 0, 0, 0, time.UTC)
	if got := Render([]queue.Job{{Name: "mail", Due: due, IsPutOff: true}}); got != "06:00 mail (put off)" {
		t.Fatalf("got %q", got)
	}
}

func TestRenderNothing(t *testing.T) {`,
        ],
      ],
    },
    expected: 'ready',
    difficulty: 'hard',
  },
} satisfies Record<string, SamplePull>
