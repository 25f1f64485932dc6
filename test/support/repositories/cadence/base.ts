/** Files of a sample repository: a job scheduler in Go that uses only the standard library. */
export const base: Record<string, string> = {
  'README.md': '# cadence\n\nJobs at their times: `every 15m`, `daily 08:30`, and not between `22:00-06:00`.\n',
  '.gitignore': '/bin/\n',
  'go.mod': 'module example.org/cadence\n\ngo 1.22\n',
  'window/window.go': `// Package window tells whether a minute of the day is in a span such as 22:00-06:00.
package window

import (
	"fmt"
	"strconv"
	"strings"
)

// Window is a span of minutes of the day. Its end is not in it.
type Window struct {
	From, To int
}

// Parse reads a span such as 08:00-17:30.
func Parse(text string) (Window, error) {
	from, to, found := strings.Cut(text, "-")
	if !found {
		return Window{}, fmt.Errorf("not a window: %q", text)
	}
	first, err := Minutes(from)
	if err != nil {
		return Window{}, err
	}
	last, err := Minutes(to)
	return Window{first, last}, err
}

// Minutes reads a time of the day such as 08:30.
func Minutes(text string) (int, error) {
	hours, minutes, _ := strings.Cut(strings.TrimSpace(text), ":")
	h, errH := strconv.Atoi(hours)
	m, errM := strconv.Atoi(minutes)
	if errH != nil || errM != nil || h < 0 || h > 23 || m < 0 || m > 59 {
		return 0, fmt.Errorf("not a time of the day: %q", text)
	}
	return h*60 + m, nil
}

// Contains tells whether a minute of the day is in the span.
func (w Window) Contains(minute int) bool {
	return w.From <= minute && minute < w.To
}
`,
  'window/window_test.go': `package window

import "testing"

func TestMinutes(t *testing.T) {
	got, err := Minutes("08:30")
	if err != nil || got != 510 {
		t.Fatalf("got %d, %v", got, err)
	}
}

func TestMinutesRefuses(t *testing.T) {
	for _, text := range []string{"", "8", "24:00", "08:60", "x:y"} {
		if _, err := Minutes(text); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
}

func TestParse(t *testing.T) {
	got, err := Parse("08:00-17:30")
	if err != nil || got != (Window{480, 1050}) {
		t.Fatalf("got %v, %v", got, err)
	}
}

func TestParseRefuses(t *testing.T) {
	for _, text := range []string{"08:00", "08:00-", "-08:00"} {
		if _, err := Parse(text); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
}

func TestContains(t *testing.T) {
	day := Window{480, 1050}
	if !day.Contains(480) || day.Contains(1050) || day.Contains(479) {
		t.Error("a window has its first minute and not its last")
	}
}
`,
  'schedule/schedule.go': `// Package schedule tells when a job is due next.
package schedule

import (
	"fmt"
	"strings"
	"time"

	"example.org/cadence/window"
)

// Schedule is a fixed step, or a minute of each day.
type Schedule struct {
	Step   time.Duration
	Minute int
}

// Parse reads "every 15m" or "daily 08:30".
func Parse(text string) (Schedule, error) {
	word, rest, _ := strings.Cut(strings.TrimSpace(text), " ")
	switch word {
	case "every":
		step, err := time.ParseDuration(rest)
		if err != nil || step < time.Second {
			return Schedule{}, fmt.Errorf("not a step: %q", rest)
		}
		return Schedule{Step: step}, nil
	case "daily":
		minute, err := window.Minutes(rest)
		return Schedule{Minute: minute}, err
	}
	return Schedule{}, fmt.Errorf("not a schedule: %q", text)
}

// Next is when the job is due after a moment.
func (s Schedule) Next(after time.Time) time.Time {
	if s.Step > 0 {
		return after.Add(s.Step)
	}
	year, month, day := after.Date()
	next := time.Date(year, month, day, 0, s.Minute, 0, 0, after.Location())
	if !next.After(after) {
		next = next.AddDate(0, 0, 1)
	}
	return next
}
`,
  'schedule/schedule_test.go': `package schedule

import (
	"testing"
	"time"
)

var noon = time.Date(2025, 3, 1, 12, 0, 0, 0, time.UTC)

func TestEvery(t *testing.T) {
	s, err := Parse("every 15m")
	if err != nil || !s.Next(noon).Equal(noon.Add(15*time.Minute)) {
		t.Fatalf("got %v, %v", s, err)
	}
}

func TestDailyLaterToday(t *testing.T) {
	s, _ := Parse("daily 18:00")
	if got := s.Next(noon); got.Hour() != 18 || got.Day() != 1 {
		t.Fatalf("got %v", got)
	}
}

func TestDailyTomorrow(t *testing.T) {
	s, _ := Parse("daily 12:00")
	if got := s.Next(noon); got.Hour() != 12 || got.Day() != 2 {
		t.Fatalf("got %v", got)
	}
}

func TestParseRefuses(t *testing.T) {
	for _, text := range []string{"", "every", "every 1ms", "daily 25:00", "hourly"} {
		if _, err := Parse(text); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
}
`,
  'queue/queue.go': `// Package queue keeps jobs in the order in which they are due.
package queue

import (
	"container/heap"
	"time"
)

// Job has a name and a time.
type Job struct {
	Name string
	Due  time.Time
}

// Queue gives the job that is due first.
type Queue struct {
	jobs jobs
}

// Add puts a job into its place.
func (q *Queue) Add(job Job) {
	heap.Push(&q.jobs, job)
}

// Len is how many jobs wait.
func (q *Queue) Len() int { return len(q.jobs) }

// Due takes every job that is due at a moment, in order.
func (q *Queue) Due(now time.Time) []Job {
	var due []Job
	for len(q.jobs) > 0 && !q.jobs[0].Due.After(now) {
		due = append(due, heap.Pop(&q.jobs).(Job))
	}
	return due
}

type jobs []Job

func (j jobs) Len() int           { return len(j) }
func (j jobs) Less(a, b int) bool { return j[a].Due.Before(j[b].Due) }
func (j jobs) Swap(a, b int)      { j[a], j[b] = j[b], j[a] }
func (j *jobs) Push(job any)      { *j = append(*j, job.(Job)) }
func (j *jobs) Pop() any {
	last := len(*j) - 1
	job := (*j)[last]
	*j = (*j)[:last]
	return job
}
`,
  'queue/queue_test.go': `package queue

import (
	"testing"
	"time"
)

func at(minute int) time.Time { return time.Date(2025, 3, 1, 12, minute, 0, 0, time.UTC) }

func TestOrder(t *testing.T) {
	var q Queue
	q.Add(Job{Name: "late", Due: at(9)})
	q.Add(Job{Name: "early", Due: at(1)})
	due := q.Due(at(10))
	if len(due) != 2 || due[0].Name != "early" {
		t.Fatalf("got %v", due)
	}
}

func TestWhatIsNotDueStays(t *testing.T) {
	var q Queue
	q.Add(Job{Name: "late", Due: at(9)})
	if due := q.Due(at(8)); len(due) != 0 || q.Len() != 1 {
		t.Fatalf("got %v", due)
	}
}

func TestDueAtTheMoment(t *testing.T) {
	var q Queue
	q.Add(Job{Name: "now", Due: at(3)})
	if len(q.Due(at(3))) != 1 {
		t.Fatal("a job is due at its own minute")
	}
}
`,
  'report/report.go': `// Package report shows what is due.
package report

import (
	"strings"

	"example.org/cadence/queue"
)

// Render has a line for each job.
func Render(jobs []queue.Job) string {
	lines := make([]string, 0, len(jobs))
	for _, job := range jobs {
		lines = append(lines, job.Due.Format("15:04")+" "+job.Name)
	}
	return strings.Join(lines, "\\n")
}

// Plural counts things.
func Plural(count int, word string) string {
	if count == 1 {
		return "1 " + word
	}
	return strings.TrimSpace(strings.Join([]string{Count(count), word + "s"}, " "))
}

// Count is a number in words up to three.
func Count(count int) string {
	words := []string{"no", "one", "two", "three"}
	if count >= 0 && count < len(words) {
		return words[count]
	}
	return "many"
}
`,
  'report/report_test.go': `package report

import (
	"testing"
	"time"

	"example.org/cadence/queue"
)

func TestRender(t *testing.T) {
	due := time.Date(2025, 3, 1, 8, 5, 0, 0, time.UTC)
	if got := Render([]queue.Job{{Name: "mail", Due: due}}); got != "08:05 mail" {
		t.Fatalf("got %q", got)
	}
}

func TestRenderNothing(t *testing.T) {
	if got := Render(nil); got != "" {
		t.Fatalf("got %q", got)
	}
}

func TestCount(t *testing.T) {
	if Count(0) != "no" || Count(3) != "three" || Count(9) != "many" {
		t.Error("numbers are words up to three")
	}
}
`,
}
