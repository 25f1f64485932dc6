import { execFileSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { gradeSuite, runSuite, type SuiteOptions } from '../../../src/grading/run-suite.ts'
import {
  type HiddenTests,
  REPOSITORY_FOLDER,
  type RunPlan,
  type SuiteOutcome,
  type TestLists,
} from '../../../src/grading/suite.ts'
import { createLog } from '../../../src/platform/log.ts'
import { createDockerProvider } from '../../../src/sandboxes/docker.ts'
import { createLocalProvider } from '../../../src/sandboxes/local.ts'
import type { Image, SandboxProvider } from '../../../src/sandboxes/sandbox.ts'
import { startDockerd } from '../dockerd.ts'
import { provideImage } from '../sandboxes/imported-image.ts'

type SuiteTree = Record<string, string>

/** A repository in an image, with functions that run its tests there. */
export type SuiteRepository = {
  image: Image
  /** Returns the `git diff` of writing these files, or deleting those with null. In latin1. */
  patch(files: Record<string, string | null>): string
  /** Returns the `git diff` of an arbitrary change to the folder. */
  patchAfter(change: (folder: string) => void): string
  run(input?: Partial<SuiteRunOptions>): Promise<SuiteOutcome>
  /** Runs the tests and computes the reward, as the verifier of a task does. */
  judge(
    lists: TestLists,
    input?: Partial<SuiteRunOptions>,
  ): Promise<{ outcome: SuiteOutcome; reward: string | undefined }>
}

type SuiteRunOptions = Partial<RunPlan> & {
  submission: string | null
  hidden: HiddenTests | null
  seed: number | null
  only: readonly string[] | null
}

export type SuiteRunner = AsyncDisposable & {
  provider: SandboxProvider
  folder: string
  repository(tree: SuiteTree, plan: Pick<RunPlan, 'runner'> & Partial<RunPlan>): Promise<SuiteRepository>
}

export type SuiteSandbox = 'bwrap' | 'runc' | 'docker'

export const TESTS_IMAGE = 'debian:trixie-tests'

export async function openSuiteRunner(name: SuiteSandbox, rootfs: string): Promise<SuiteRunner> {
  const folder = mkdtempSync(join(tmpdir(), 'assay-suites-'))
  const { provider, close } =
    name === 'docker' ? await openDocker(folder, rootfs) : await openLocal(name, folder, rootfs)
  return {
    provider,
    folder,
    repository: (tree, plan) => openRepository(provider, folder, tree, plan),
    async [Symbol.asyncDispose]() {
      await close()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

type OpenedProvider = { provider: SandboxProvider; close(): Promise<void> }

async function openLocal(runtime: 'bwrap' | 'runc', dataFolder: string, rootfs: string): Promise<OpenedProvider> {
  const provider = createLocalProvider({ dataFolder, runtime, allowHostBase: false, log: createLog('silent') })
  await provideImage(dataFolder, rootfs, TESTS_IMAGE)
  return { provider, close: async () => {} }
}

async function openDocker(dataFolder: string, rootfs: string): Promise<OpenedProvider> {
  const dockerd = await startDockerd({ images: { [TESTS_IMAGE]: rootfs } })
  const connection = { kind: 'unix', path: dockerd.socket } as const
  const installation = randomUUID().slice(0, 8)
  const provider = createDockerProvider({ connection, installation, dataFolder, log: createLog('silent') })
  return { provider, close: async () => dockerd[Symbol.asyncDispose]() }
}

async function openRepository(
  provider: SandboxProvider,
  scratch: string,
  tree: SuiteTree,
  defaults: Pick<RunPlan, 'runner'> & Partial<RunPlan>,
): Promise<SuiteRepository> {
  const folder = mkdtempSync(join(scratch, 'repository-'))
  write(folder, tree)
  git(folder, 'init', '--quiet', '--initial-branch=main')
  git(folder, 'add', '--all')
  git(folder, 'commit', '--quiet', '--message=Start')
  const options = { signal: new AbortController().signal, timeoutSec: 300, onLog: () => {} }
  const image = await provider.prepare(
    { kind: 'prebuilt', name: TESTS_IMAGE, folder, workdir: REPOSITORY_FOLDER },
    options,
  )
  const orderOf = ({
    submission = null,
    hidden = null,
    seed = null,
    only = null,
    ...plan
  }: Partial<SuiteRunOptions> = {}): SuiteOptions => {
    const whole = { prepare: [], targets: [], timeoutSec: 300, ...defaults, ...plan }
    return { image, submission, hidden, seed, only, plan: whole, cpus: 2, memoryMb: 4096, folder: scratch }
  }
  return {
    image,
    patch: (files) => patchAfter(folder, () => change(folder, files)),
    patchAfter: (whatever) => patchAfter(folder, () => whatever(folder)),
    run: (input) => runSuite(provider, orderOf(input), options.signal),
    judge: (lists, input) => gradeSuite(provider, { ...orderOf(input), lists }, options.signal),
  }
}

function write(folder: string, tree: SuiteTree): void {
  for (const [path, content] of Object.entries(tree)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true })
    writeFileSync(join(folder, path), content)
  }
}

const WHO = ['-c', 'user.name=nobody', '-c', 'user.email=nobody@localhost']

const git = (folder: string, ...words: string[]): string =>
  execFileSync('git', ['-C', folder, ...WHO, ...words], { encoding: 'latin1', maxBuffer: 64e6 })

function change(folder: string, files: Record<string, string | null>): void {
  for (const [path, content] of Object.entries(files)) {
    if (content === null) rmSync(join(folder, path), { recursive: true })
    else write(folder, { [path]: content })
  }
}

/** Takes the patch as a task's hook does, and includes ignored files, because an agent can add them. */
function patchAfter(folder: string, whatever: () => void): string {
  whatever()
  git(folder, 'add', '--all', '--force')
  const patch = git(folder, 'diff', '--binary', '--cached', 'HEAD')
  git(folder, 'reset', '--quiet', '--hard')
  return patch
}

/** Returns the statuses of a run. Throws if the run itself failed. */
export function statusesOf(outcome: SuiteOutcome): Record<string, string> {
  if (outcome.kind === 'broken') throw new Error(`${outcome.reason}: ${outcome.detail}`)
  return outcome.run.statuses
}
