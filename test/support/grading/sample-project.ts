import type { TestStatus } from '../../../src/grading/suite.ts'

/** A small repository for a runner, and what its tests come to. */
export type SampleProject = {
  runner: string
  tree: Record<string, string>
  prepare?: string[]
  /** Ids of the whole suite: passed, failed, errored and skipped ones, with letters beyond ASCII. */
  all: Record<string, TestStatus>
  /** One test file, and the ids that it alone comes to. Null: the runner cannot be told of files. */
  target: string | null
  ofTarget: Record<string, TestStatus>
  /** A test that fails, and what its message says. */
  says: [id: string, part: string]
  /** A test file that cannot be compiled, where that could keep others from running, and what it is called then. */
  broken?: { path: string; content: string; id: string }
}
