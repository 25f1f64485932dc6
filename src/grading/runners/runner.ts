import { quote } from '../../sandboxes/kernel/shell.ts'
import type { TreeFacts } from '../suite.ts'

type CommandOptions = {
  /** Test files, relative to the repository. Empty: all. */
  targets: readonly string[]
  /** Null keeps the runner's own order. */
  seed: number | null
  /**
   * Ids of the only tests to run; also in the file `SELECTED_TESTS`. Null, and a runner without `selects`, runs all
   * targets.
   */
  only?: readonly string[] | null
}

/** Name of the JSON file in `$ASSAY_TOOLS` that lists the ids of `only`. */
export const SELECTED_TESTS = 'selected-tests.json'

export type Runner = {
  id: string
  name: string
  /** Format of the report in `$ASSAY_REPORT`: a key of `READERS` in `files/reports.py`. One file, except for `junit-files`. */
  report: string
  /** Set where `seed` has an effect. */
  shuffles: boolean
  /** Set where `only` has an effect. */
  selects: boolean
  /** Tried after all other runners, because its `detect` also accepts projects that use another runner. */
  isFallback: boolean
  detect(tree: TreeFacts): boolean
  /** Returns true for a test file that can be named on the command line of the runner. */
  isTarget(path: string): boolean
  /**
   * Returns a shell command that an unprivileged user runs in the repository. It writes the report to `$ASSAY_REPORT`.
   */
  command(order: CommandOptions): string
  /** Commands that rebuild after a file change, offline. */
  prepare: readonly string[]
  /** Exit codes for success and for failed tests. With any other code the report is discarded. */
  exits: { passed: readonly number[]; failed: readonly number[] }
  /**
   * Names of files that configure the runner, as fnmatch patterns; folders end with a slash. A submission cannot change
   * them.
   */
  settings: readonly string[]
  /** Programs available to the command in `$ASSAY_TOOLS`. */
  tools: readonly ToolFile[]
}

/** A file of `runners/files/`, and the name under which the command finds it. */
export type ToolFile = { name: string; file: string }

/** Exit codes of most runners. */
export const ZERO_OR_ONE = { passed: [0], failed: [1] } as const

/** Quotes paths for a shell command. A path that begins with a dash is not read as an option. */
export const pathWords = (paths: readonly string[]): string =>
  paths.map((path) => ` ${quote(path.startsWith('-') ? `./${path}` : path)}`).join('')

export const hasFile = ({ paths }: TreeFacts, test: (path: string) => boolean): boolean => {
  for (const path of paths) if (test(path)) return true
  return false
}

/** True if the text of a file was read and matches. */
export const mentions = ({ texts }: TreeFacts, path: string, pattern: RegExp): boolean =>
  pattern.test(texts.get(path) ?? '')
