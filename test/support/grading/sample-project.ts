import type { TestStatus } from '../../../src/grading/suite.ts'

/** A small repository for a test runner, with the expected results. */
export type SampleProject = {
  runner: string
  tree: Record<string, string>
  prepare?: string[]
  /** Ids of the entire suite with all statuses, including non-ASCII names. */
  statuses: Record<string, TestStatus>
  /** A test file, and the statuses of the tests in it. Null if the runner cannot run single files. */
  target: string | null
  targetStatuses: Record<string, TestStatus>
  /** A failing test and a part of its message. */
  failureMessage: [id: string, part: string]
  /** A test file that does not compile and its id, for runners where that could stop other tests. */
  broken?: { path: string; content: string; id: string }
}
