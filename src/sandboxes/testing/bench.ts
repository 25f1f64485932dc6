import { randomUUID } from 'node:crypto'
import { mkdir, mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { Parser, type ReadEntry } from 'tar'
import { DEFAULT_LIMITS } from '../../harbor/default-limits.ts'
import type { Exit, Group, Limits, Remains, Sandbox, SandboxSpec } from '../sandbox.ts'
import type { Subject } from './subject.ts'

/** What a case sets; the rest is a sandbox of the image with generous limits and no network. */
export type Wish = Partial<Omit<SandboxSpec, 'limits'>> & { limits?: Partial<Limits> }

export type Ran = { sandbox: Sandbox; exit: Exit; output: string }

/** One case at work: what it starts is removed when it ends. */
export type Bench = AsyncDisposable & {
  subject: Subject
  /** A new folder of this machine. */
  folder(): Promise<string>
  group(): Promise<Group>
  start(command: string | string[] | null, wish?: Wish): Promise<Sandbox>
  /** A text is run by sh. */
  run(command: string | string[], wish?: Wish): Promise<Ran>
}

const LIMITS: Limits = { ...DEFAULT_LIMITS, pids: 64, outputBytes: 1e6, seconds: 30 }

export async function openBench(subject: Subject): Promise<Bench> {
  const top = await mkdtemp(join(tmpdir(), 'assay-bench-'))
  const sandboxes: Sandbox[] = []
  const groups: Group[] = []

  const start = async (command: string | string[] | null, wish: Wish = {}): Promise<Sandbox> => {
    const spec = specOf(subject, top, command, wish)
    const sandbox = await subject.provider.start(spec)
    sandboxes.push(sandbox)
    return sandbox
  }

  return {
    subject,
    start,
    async group() {
      const group = await subject.provider.openGroup(`group-${randomUUID()}`)
      groups.push(group)
      return group
    },
    async folder() {
      const path = join(top, randomUUID())
      await mkdir(path)
      return path
    },
    async run(command, wish = {}) {
      const outputFile = wish.outputFile ?? join(top, `${randomUUID()}.out`)
      const sandbox = await start(command, { ...wish, outputFile })
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

function specOf(subject: Subject, top: string, command: string | string[] | null, wish: Wish): SandboxSpec {
  const id = wish.id ?? `case-${randomUUID()}`
  return {
    image: subject.image,
    seed: { kind: 'image' },
    user: null,
    workdir: null,
    env: {},
    mounts: [],
    inserts: [],
    execs: false,
    group: null,
    ports: [],
    input: '',
    outputFile: join(top, `${id}.out`),
    ...wish,
    id,
    command: typeof command === 'string' ? ['sh', '-c', command] : command,
    limits: { ...LIMITS, ...wish.limits },
  }
}

export type Entry = { path: string; type: string; mode: number; link: string; content: string }

const CAPS = { files: 1000, bytes: 10e6 }

/** The entries of a collected path. Undefined when there is nothing there. */
export async function collected(
  remains: Remains,
  path: string,
  caps = CAPS,
): Promise<{ entries: Entry[]; leftOut: string[] } | undefined> {
  const found = await remains.collect(path, caps)
  return found && { entries: await entriesOf(found.tar), leftOut: [...found.leftOut].sort() }
}

async function entriesOf(tar: Readable): Promise<Entry[]> {
  const entries: Promise<Entry>[] = []
  const parser = new Parser({ onReadEntry: (entry) => entries.push(readEntry(entry)) })
  parser.end(await buffer(tar))
  return (await Promise.all(entries)).sort((a, b) => (a.path < b.path ? -1 : 1))
}

async function readEntry(entry: ReadEntry): Promise<Entry> {
  const content = (await entry.concat()).toString()
  return { path: entry.path, type: entry.type, mode: entry.mode ?? 0, link: entry.linkpath ?? '', content }
}
