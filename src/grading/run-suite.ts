import { open } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { z } from 'zod'
import { DEFAULT_LIMITS, GENERATED_LIMITS } from '../harbor/limits.ts'
import { readTarEntries } from '../harbor/tar-reader.ts'
import { newId } from '../platform/ids.ts'
import { KILLED_CODE } from '../sandboxes/kernel/exit.ts'
import { tarEnd, tarPadding } from '../sandboxes/kernel/tar-writer.ts'
import {
  type Exit,
  type Image,
  killOnAbort,
  type Sandbox,
  type SandboxProvider,
  SandboxUnavailable,
  type SandboxUpload,
  type StoppedSandbox,
} from '../sandboxes/sandbox.ts'
import { headerBlocks } from '../trials/tar.ts'
import { buildGraderFiles, GRADER_SLACK_SEC } from './grader-files.ts'
import type { HiddenTests, PlainFile, RunPlan, SuiteOutcome, TestLists } from './suite.ts'

export type SuiteOptions = {
  image: Image
  /** A patch in latin1. Null: the tree as it is in the image. */
  submission: string | null
  hidden: HiddenTests | null
  plan: RunPlan
  /** Seed of the order of the tests. Null: the order of the runner. */
  seed: number | null
  /** Days by which the tests' clock is shifted. Omitted: the real clock. */
  daysAhead?: number | null
  /** Ids of the only tests to run, for runners that select tests. Omitted: all tests of the plan. */
  only?: readonly string[] | null
  cpus: number
  memoryMb: number
  /** Folder on this machine for output; each run writes its own file. */
  folder: string
}

const PIDS_MAX = 4096
const OUTPUT_BYTES_MAX = 1024 * 1024
/** Exit code of `grade.py` in a sandbox in which it cannot run the tests as another user. */
const NO_SECOND_USER = 75

/**
 * Runs the tests once in a fresh sandbox without network, with the grader files that a task ships. Throws
 * SandboxUnavailable if the sandbox broke; every failure that the tests cause is returned as an outcome.
 */
export async function runSuite(
  provider: SandboxProvider,
  options: SuiteOptions,
  signal: AbortSignal,
): Promise<SuiteOutcome> {
  return (await gradeSuite(provider, { ...options, lists: null }, signal)).outcome
}

/** On a busy host, tests that use CPU time may exceed their timeout by this multiple of it. */
const PATIENCE_FACTOR = 2

type GradeOptions = SuiteOptions & { lists: TestLists | null }

/** Runs the suite like `runSuite`, and also returns the reward that the grader wrote for these test lists. */
export async function gradeSuite(
  provider: SandboxProvider,
  options: GradeOptions,
  signal: AbortSignal,
): Promise<{ outcome: SuiteOutcome; reward: string | undefined }> {
  signal.throwIfAborted()
  const id = newId()
  const outputFile = join(options.folder, `suite-${id}.log`)
  const sandbox = await provider.start({
    id: `${id}-suite`,
    image: options.image,
    baseFilesystem: { kind: 'image' },
    uploads: buildUploads(options),
    command: ['/bin/sh', '/tests/test.sh'],
    usesExec: false,
    user: 0,
    workdir: '/',
    env: {},
    mounts: [],
    network: null,
    ports: [],
    limits: {
      ...DEFAULT_LIMITS,
      cpus: options.cpus,
      memoryMb: options.memoryMb,
      pids: PIDS_MAX,
      diskMb: GENERATED_LIMITS.diskMb,
      outputBytes: OUTPUT_BYTES_MAX,
      seconds: options.plan.timeoutSec * (1 + PATIENCE_FACTOR) + GRADER_SLACK_SEC,
    },
    input: '',
    outputFile,
  })
  try {
    const exit = await waitForExit(sandbox, signal)
    if (exit.code === NO_SECOND_USER)
      throw new SandboxUnavailable(
        'The grader must run tests as another user, and this sandbox has only one user. Run the worker as root.',
      )
    const { outcome, reward } = await readGradeOutput(sandbox.stopped)
    // Tests cannot kill the grader, which belongs to root.
    if (outcome === undefined && exit.code === KILLED_CODE && exit.limit === null)
      throw new SandboxUnavailable('The sandbox was killed from outside before its tests ended.')
    return { outcome: outcome ?? toBrokenOutcome(exit, await readTail(outputFile)), reward }
  } finally {
    await sandbox.remove()
  }
}

function buildUploads({ plan, lists, hidden, seed, daysAhead, only, submission }: GradeOptions): SandboxUpload[] {
  const patch = submission === null ? [] : [{ path: 'submission.patch', content: submission, executable: false }]
  const patienceSec = plan.timeoutSec * PATIENCE_FACTOR
  const graderOptions = { hidden, seed, daysAhead: daysAhead ?? null, only: only ?? null, patienceSec }
  return [
    {
      target: '/tests',
      tar: packTar(buildGraderFiles(plan, lists, graderOptions)),
    },
    { target: '/logs/artifacts', tar: packTar(patch) },
  ]
}

function packTar(files: readonly PlainFile[]): Readable {
  const blocks = files.flatMap(({ path, content, executable }) => {
    const bytes = Buffer.from(content, 'latin1')
    const header = { path, type: 'File', mode: executable ? 0o755 : 0o644, uid: 0, size: bytes.length } as const
    return [...headerBlocks(header), bytes, tarPadding(bytes.length)]
  })
  return Readable.from([Buffer.concat([...blocks, tarEnd()])], { objectMode: false })
}

async function waitForExit(sandbox: Sandbox, signal: AbortSignal): Promise<Exit> {
  killOnAbort(sandbox, signal)
  const exit = await sandbox.exited
  signal.throwIfAborted()
  return exit
}

/**
 * Returns the outcome if the grader left no report: a sandbox limit ended it, or the image lacks a program it needs.
 */
const toBrokenOutcome = ({ code, limit }: Exit, output: string): SuiteOutcome => ({
  kind: 'broken',
  reason: limit === 'seconds' ? 'timeout' : 'no_report',
  detail: `The grader ended with ${code === null ? `the limit ${limit}` : `exit code ${code}`} and left no readable report.\n${output}`,
})

const TAIL_BYTES_MAX = 4000

async function readTail(path: string): Promise<string> {
  await using file = await open(path, 'r')
  const { size } = await file.stat()
  const length = Math.min(size, TAIL_BYTES_MAX)
  const { buffer } = await file.read(Buffer.alloc(length), 0, length, size - length)
  return buffer.toString('utf8')
}

const REPORT_BYTES_MAX = 128 * 1024 * 1024

const SuiteRun = z.object({
  statuses: z.record(z.string(), z.enum(['passed', 'failed', 'errored', 'skipped'])),
  messages: z.record(z.string(), z.string()),
  exitCode: z.int().nullable(),
  seconds: z.number(),
  cpuSeconds: z.number().optional(),
})

const Outcome = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('ran'), run: SuiteRun }),
  z.object({
    kind: z.literal('broken'),
    reason: z.enum(['no_report', 'timeout', 'patch_does_not_apply', 'prepare_failed']),
    detail: z.string(),
  }),
])

/** Parses a verifier's `report.json`. The file is untrusted; returns undefined if it is invalid. */
export function parseReport(report: string): SuiteOutcome | undefined {
  try {
    return Outcome.safeParse(JSON.parse(report)).data
  } catch (error) {
    if (error instanceof SyntaxError) return undefined
    throw error
  }
}

type GradeOutput = {
  /** Undefined if the grader wrote no valid report. */
  outcome: SuiteOutcome | undefined
  /** Content of `reward.txt`. */
  reward: string | undefined
}

/** Reads the files that root wrote, after all processes of the sandbox have ended. */
export async function readGradeOutput(stopped: StoppedSandbox): Promise<GradeOutput> {
  const collected = await stopped.collect('/logs/verifier', { files: 10, bytes: REPORT_BYTES_MAX })
  const output: GradeOutput = { outcome: undefined, reward: undefined }
  if (collected === undefined) return output
  for await (const entry of readTarEntries(collected.tar)) {
    const text = (await buffer(entry.content())).toString('utf8')
    if (entry.path === 'verifier/report.json') output.outcome = parseReport(text)
    if (entry.path === 'verifier/reward.txt') output.reward = text
  }
  return output
}
