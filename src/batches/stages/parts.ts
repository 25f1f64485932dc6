/**
 * What the stages of making a task hand to each other. Plain data that can be stored as JSON. Patches and files of
 * strangers are latin1 text, so that no byte is lost.
 */

/** Where the repository lies in every image, for agents and for the verifier. */
export const REPOSITORY_FOLDER = '/workspace/repo'

/** A file of a tree, or of a task that is being made. */
export type PlainFile = { path: string; content: string; executable: boolean }

/** What is known of a tree without checking it out: every path, and the text of the few files that were asked for. */
export type TreeFacts = { paths: ReadonlySet<string>; texts: ReadonlyMap<string, string> }

/**
 * How a tree is made ready for its tests. Found by rules, or by a model where rules fail; either way we replay it, and what
 * it says of itself counts for nothing. Shell lines run as root in the repository.
 */
export type EnvRecipe = {
  /** A base image of our table. */
  base: string
  aptPackages: string[]
  env: Record<string, string>
  /** Files that `setup` needs. They are there before the rest of the tree, so that their layer is built once for all. */
  manifests: string[]
  /** With the manifests alone, and with a network. */
  setup: string[]
  /** With the whole tree, and with a network. */
  build: string[]
  runner: string
}

/** How tests are run, the same in every run of them and in the task that is made. Becomes `run.json` of its verifier. */
export type RunPlan = {
  runner: string
  /** After the files are in place and before the tests, offline: what has to be compiled again. */
  prepare: string[]
  /** Test files, relative to the repository. Empty: all there are. */
  targets: string[]
  timeoutSec: number
}

/** The tests of the pull request as they landed: files that are laid over the tree, and those that it deleted. */
export type HiddenTests = { files: PlainFile[]; deleted: string[] }

export type TestStatus = 'passed' | 'failed' | 'errored' | 'skipped'

/** One run of the tests, by the ids that the runner's own report gives. */
export type SuiteRun = {
  statuses: Record<string, TestStatus>
  /** Of what did not pass: how the failure reads, cut short. */
  messages: Record<string, string>
  exitCode: number | null
  seconds: number
}

/** `broken`: the runner said nothing that could be counted. Not a broken sandbox, which is an exception. */
export type SuiteOutcome =
  | { kind: 'ran'; run: SuiteRun }
  | { kind: 'broken'; reason: 'no_report' | 'timeout' | 'patch_does_not_apply' | 'prepare_failed'; detail: string }

/** Sorted. */
export type TestLists = { failToPass: string[]; passToPass: string[] }

/** One of the runs behind an execution. */
export type SuiteSummary = {
  variant: 'base' | 'tests' | 'fixed'
  cpus: number
  isShuffled: boolean
  /** By the clock that it was shown. Null: it was shown the real one. */
  daysAhead: number | null
  passed: number
  failed: number
  seconds: number
}

/** What running the tests showed. */
export type Execution = {
  lists: TestLists
  plan: RunPlan
  runs: SuiteSummary[]
  /** What was left out for not being stable. */
  unstable: string[]
  /** How tests fail before the fix, by their ids. */
  messages: Record<string, string>
  /** Whether some test fails by what it asserts, and not because something is not there. */
  failsByAssertion: boolean
  ablation: { groups: number; necessary: number }
  medianSec: number
}

/** A name, a literal or a path that the tests use, the change brings, and nobody could guess. */
export type PinnedSymbol = { kind: 'name' | 'literal' | 'path'; text: string; signature: string | null }

/** What an author model returns. We render it. */
export type InstructionDraft = {
  title: string
  problem: string
  expected: string
  actual: string | null
  reproduction: string | null
  constraints: string[]
}

/** Text that came with the pull request. A stranger's. */
export type PullRequestText = { title: string; body: string; issues: { title: string; body: string }[] }

/** `evidence`: what it was decided by, as it can be stored. */
export type StageRejection = { kind: 'rejected'; reason: string; detail: string; evidence?: unknown }

/** Not a verdict: it goes on by itself, or when somebody has seen to it. */
export type StageDeferral = {
  kind: 'deferred'
  reason: 'rate_limit' | 'credential' | 'budget' | 'provider' | 'config' | 'sandbox'
  detail: string
  retryAfterMs: number
}

export type StageResult<T> = { kind: 'done'; value: T } | StageRejection | StageDeferral

export const done = <T>(value: T): StageResult<T> => ({ kind: 'done', value })
export const reject = (reason: string, detail: string, evidence?: unknown): StageRejection => ({
  ...{ kind: 'rejected', reason, detail },
  ...(evidence === undefined ? {} : { evidence }),
})

/** A rejection with what it was decided by, for who wants to know more than its words. */
export const withEvidence = <T>(result: StageResult<T>, evidence: object): StageResult<T> =>
  result.kind === 'rejected' ? { ...result, evidence: result.evidence ?? evidence } : result
