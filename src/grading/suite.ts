/** Path of the repository in every image, for agents and for the verifier. */
export const REPOSITORY_FOLDER = '/workspace/repo'

/** The user that tests run as. Images give it access to the folders that its programs write to. */
export const TESTS_UID = 61_000

/** A file of a tree, or of a task that is being created. `content` is latin1 text, so that no byte is lost. */
export type PlainFile = { path: string; content: string; executable: boolean }

/** Paths of a tree, and the text of the files that were read, without a checkout. */
export type TreeFacts = {
  paths: ReadonlySet<string>
  texts: ReadonlyMap<string, string>
  /** Time of the commit. Dependencies are installed as they were published then. Unknown for a tree without a commit. */
  committedAt?: Date | undefined
}

/** Describes how tests are run, in every run and in the finished task, whose verifier contains it as `run.json`. */
export type RunPlan = {
  runner: string
  /** Commands that recompile the tests, offline, after the files are in place. */
  prepare: string[]
  /** Test files, relative to the repository. Empty: all. */
  targets: string[]
  timeoutSec: number
  /** Servers that are started before the tests. */
  services?: ServicePlan | undefined
}

export type ServicePlan = {
  /** Programs and ports, as people read them: `PostgreSQL on port 5432`. */
  names: string[]
  /** Shell script that the user of the tests runs. */
  script: string
  /** Names of the loopback address under which the tests reach the servers. */
  hosts: string[]
}

/** The tests of the pull request as they landed: files that are copied over the tree, and files that it deleted. */
export type HiddenTests = { files: PlainFile[]; deleted: string[] }

export type TestStatus = 'passed' | 'failed' | 'errored' | 'skipped'

/** Result of one test run, keyed by the test ids of the runner's report. */
export type SuiteRun = {
  statuses: Record<string, TestStatus>
  /** Truncated failure messages of tests that did not pass. */
  messages: Record<string, string>
  exitCode: number | null
  /** Elapsed time, which depends on the load of the host. */
  seconds: number
  /** CPU time of all processes of the tests. Unknown in reports of older graders. */
  cpuSeconds?: number | undefined
}

/** Returns the CPU time of a run; the elapsed time where it is unknown. */
export const cpuSecondsOf = ({ cpuSeconds, seconds }: Pick<SuiteRun, 'cpuSeconds' | 'seconds'>): number =>
  cpuSeconds ?? seconds

/** `broken`: the runner wrote no usable report. A broken sandbox is an exception instead. */
export type SuiteOutcome =
  | { kind: 'ran'; run: SuiteRun }
  | { kind: 'broken'; reason: 'no_report' | 'timeout' | 'patch_does_not_apply' | 'prepare_failed'; detail: string }

/**
 * Tests that a solution must pass, sorted. Without the fix, fail-to-pass tests do not pass and pass-to-pass tests do.
 * Guards pass on the base and with the fix, but cannot run properly in between: the landed tests do not compile without
 * the fix, or one of them makes later tests fail.
 */
export type TestLists = { failToPass: string[]; passToPass: string[]; guards: string[] }

/** Lists every test that a solution must pass. */
export const listRequired = ({ failToPass, passToPass, guards }: TestLists): string[] => [
  ...failToPass,
  ...passToPass,
  ...guards,
]
