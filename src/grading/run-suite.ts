import { open } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { DEFAULT_LIMITS } from '../harbor/default-limits.ts'
import { newId } from '../platform/ids.ts'
import { killOnAbort } from '../sandboxes/kill-on-abort.ts'
import {
  type Exit,
  type Image,
  type Insert,
  type Provider,
  type Sandbox,
  SandboxUnavailable,
} from '../sandboxes/sandbox.ts'
import { endOfTar, headerBlocks, paddingAfter } from '../trials/tar.ts'
import { GRADER_SLACK_SEC, graderFiles } from './grader-files.ts'
import type { HiddenTests, PlainFile, RunPlan, SuiteOutcome, TestLists } from './suite.ts'
import { readGraded } from './suite-report.ts'

export type SuiteOrder = {
  image: Image
  /** A patch in latin1. Null: the tree as it is in the image. */
  submission: string | null
  hidden: HiddenTests | null
  plan: RunPlan
  seed: number | null
  /** What the clock of the tests shows. Left out: nothing stands between them and the real one. */
  daysAhead?: number | null
  cpus: number
  memoryMb: number
  /** Of this machine. Output goes there, in a file of its own for each run. */
  folder: string
}

const PIDS = 4096
/** As much as the finished task has. */
const DISK_MB = 10_240
const OUTPUT_BYTES = 1024 * 1024
/** What the judge ends with where it cannot give anything to another user. */
const NO_SECOND_USER = 75

/**
 * Runs the tests once, in a fresh sandbox without a network, by the very files that a task ships. Throws
 * SandboxUnavailable when the sandbox broke; whatever the tests did is an outcome.
 */
export async function runSuite(provider: Provider, order: SuiteOrder, signal: AbortSignal): Promise<SuiteOutcome> {
  return (await gradeSuite(provider, { ...order, lists: null }, signal)).outcome
}

type GradeOrder = SuiteOrder & { lists: TestLists | null }

/** The same, and the reward that root wrote: what a task would do with these lists. */
export async function gradeSuite(
  provider: Provider,
  order: GradeOrder,
  signal: AbortSignal,
): Promise<{ outcome: SuiteOutcome; reward: string | undefined }> {
  signal.throwIfAborted()
  const id = newId()
  const outputFile = join(order.folder, `suite-${id}.log`)
  const sandbox = await provider.start({
    id: `${id}-suite`,
    image: order.image,
    seed: { kind: 'image' },
    inserts: insertsOf(order),
    command: ['/bin/sh', '/tests/test.sh'],
    execs: false,
    user: 0,
    workdir: '/',
    env: {},
    mounts: [],
    group: null,
    ports: [],
    limits: {
      ...DEFAULT_LIMITS,
      ...{ cpus: order.cpus, memoryMb: order.memoryMb, pids: PIDS, diskMb: DISK_MB, outputBytes: OUTPUT_BYTES },
      seconds: order.plan.timeoutSec + GRADER_SLACK_SEC,
    },
    input: '',
    outputFile,
  })
  try {
    const exit = await exitOf(sandbox, signal)
    if (exit.code === NO_SECOND_USER)
      throw new SandboxUnavailable('Tests need a sandbox that root runs: this one has but one user.')
    const { outcome, reward } = await readGraded(sandbox.remains)
    return { outcome: outcome ?? unreported(exit, await endOf(outputFile)), reward }
  } finally {
    await sandbox.remove()
  }
}

function insertsOf({ plan, lists, hidden, seed, daysAhead, submission }: GradeOrder): Insert[] {
  const patch = submission === null ? [] : [{ path: 'submission.patch', content: submission, executable: false }]
  return [
    { target: '/tests', tar: tarOfFiles(graderFiles(plan, lists, { hidden, seed, daysAhead: daysAhead ?? null })) },
    { target: '/logs/artifacts', tar: tarOfFiles(patch) },
  ]
}

function tarOfFiles(files: readonly PlainFile[]): Readable {
  const blocks = files.flatMap(({ path, content, executable }) => {
    const bytes = Buffer.from(content, 'latin1')
    const header = { path, type: 'File', mode: executable ? 0o755 : 0o644, uid: 0, size: bytes.length } as const
    return [...headerBlocks(header), bytes, paddingAfter(bytes.length)]
  })
  return Readable.from([Buffer.concat([...blocks, endOfTar()])], { objectMode: false })
}

async function exitOf(sandbox: Sandbox, signal: AbortSignal): Promise<Exit> {
  killOnAbort(sandbox, signal)
  const exit = await sandbox.exited
  signal.throwIfAborted()
  return exit
}

/** The judge itself was ended: by a limit of the sandbox, or because the image lacks what it needs. */
const unreported = ({ code, limit }: Exit, said: string): SuiteOutcome => ({
  kind: 'broken',
  reason: limit === 'seconds' ? 'timeout' : 'no_report',
  detail: `The judge ended with ${code ?? `the limit ${limit}`} and left no report that can be read.\n${said}`,
})

const SAID_BYTES = 4000

async function endOf(path: string): Promise<string> {
  await using file = await open(path, 'r')
  const { size } = await file.stat()
  const length = Math.min(size, SAID_BYTES)
  const { buffer } = await file.read(Buffer.alloc(length), 0, length, size - length)
  return buffer.toString('utf8')
}
