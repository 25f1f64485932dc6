import { randomUUID } from 'node:crypto'
import { mkdir, mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { Parser, type ReadEntry } from 'tar'
import { DEFAULT_LIMITS } from '../../../src/harbor/limits.ts'
import type {
  Exit,
  Sandbox,
  SandboxLimits,
  SandboxNetwork,
  SandboxSpec,
  StoppedSandbox,
} from '../../../src/sandboxes/sandbox.ts'
import type { ProviderUnderTest } from './provider-under-test.ts'

/** Fields that a case sets. Defaults are a sandbox of the image with generous limits and no network. */
export type CaseSpec = Partial<Omit<SandboxSpec, 'limits'>> & { limits?: Partial<SandboxLimits> }

type RunResult = { sandbox: Sandbox; exit: Exit; output: string }

/** Resources of one case. Sandboxes that it starts are removed when it ends. */
export type CaseContext = AsyncDisposable & {
  subject: ProviderUnderTest
  /** Creates a folder on this machine. */
  folder(): Promise<string>
  openNetwork(): Promise<SandboxNetwork>
  start(command: string | string[] | null, options?: CaseSpec): Promise<Sandbox>
  /** Runs a command; a string is passed to sh. */
  run(command: string | string[], options?: CaseSpec): Promise<RunResult>
}

const LIMITS: SandboxLimits = { ...DEFAULT_LIMITS, pids: 64, outputBytes: 1e6, seconds: 30 }

export async function openCaseContext(subject: ProviderUnderTest): Promise<CaseContext> {
  const top = await mkdtemp(join(tmpdir(), 'assay-bench-'))
  const sandboxes: Sandbox[] = []
  const groups: SandboxNetwork[] = []

  const start = async (command: string | string[] | null, options: CaseSpec = {}): Promise<Sandbox> => {
    const spec = specOf(subject, top, command, options)
    const sandbox = await subject.provider.start(spec)
    sandboxes.push(sandbox)
    return sandbox
  }

  return {
    subject,
    start,
    async openNetwork() {
      const group = await subject.provider.openNetwork(`group-${randomUUID()}`)
      groups.push(group)
      return group
    },
    async folder() {
      const path = join(top, randomUUID())
      await mkdir(path)
      return path
    },
    async run(command, options = {}) {
      const outputFile = options.outputFile ?? join(top, `${randomUUID()}.out`)
      const sandbox = await start(command, { ...options, outputFile })
      const exit = await sandbox.exited
      return { sandbox, exit, output: await readFile(outputFile, 'utf8') }
    },
    async [Symbol.asyncDispose]() {
      await Promise.all(sandboxes.map((sandbox) => sandbox.remove()))
      await Promise.all(groups.map((group) => group.remove()))
      await rm(top, { recursive: true })
    },
  }
}

function specOf(
  subject: ProviderUnderTest,
  top: string,
  command: string | string[] | null,
  options: CaseSpec,
): SandboxSpec {
  const id = options.id ?? `case-${randomUUID()}`
  return {
    image: subject.image,
    baseFilesystem: { kind: 'image' },
    user: null,
    workdir: null,
    env: {},
    mounts: [],
    uploads: [],
    usesExec: false,
    network: null,
    ports: [],
    input: '',
    outputFile: join(top, `${id}.out`),
    ...options,
    id,
    command: typeof command === 'string' ? ['sh', '-c', command] : command,
    limits: { ...LIMITS, ...options.limits },
  }
}

export type CollectedEntry = { path: string; type: string; mode: number; link: string; content: string }

const CAPS = { files: 1000, bytes: 10e6 }

/** Returns the entries of a collected path, or undefined if it does not exist. */
export async function collected(
  remains: StoppedSandbox,
  path: string,
  caps = CAPS,
): Promise<{ entries: CollectedEntry[]; leftOut: string[] } | undefined> {
  const found = await remains.collect(path, caps)
  return found && { entries: await entriesOf(found.tar), leftOut: [...found.leftOut].sort() }
}

async function entriesOf(tar: Readable): Promise<CollectedEntry[]> {
  const entries: Promise<CollectedEntry>[] = []
  const parser = new Parser({ onReadEntry: (entry) => entries.push(readEntry(entry)) })
  parser.end(await buffer(tar))
  return (await Promise.all(entries)).sort((a, b) => (a.path < b.path ? -1 : 1))
}

async function readEntry(entry: ReadEntry): Promise<CollectedEntry> {
  const content = (await entry.concat()).toString()
  return { path: entry.path, type: entry.type, mode: entry.mode ?? 0, link: entry.linkpath ?? '', content }
}
