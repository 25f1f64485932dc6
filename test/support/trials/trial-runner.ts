import { randomUUID } from 'node:crypto'
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { openFolderSource } from '../../../src/harbor/folder-source.ts'
import { readTask } from '../../../src/harbor/read-task.ts'
import type { Harness } from '../../../src/harnesses/harness.ts'
import { createLog } from '../../../src/platform/log.ts'
import { createDockerProvider } from '../../../src/sandboxes/docker.ts'
import { createKubernetesProvider } from '../../../src/sandboxes/kubernetes.ts'
import { createLocalProvider } from '../../../src/sandboxes/local.ts'
import type { SandboxProvider } from '../../../src/sandboxes/sandbox.ts'
import { listSolutionPaths } from '../../../src/trials/calibrate.ts'
import type { TrialRecord, VerifyMode } from '../../../src/trials/record.ts'
import { runTrial } from '../../../src/trials/run-trial.ts'
import type { TrialRequest } from '../../../src/trials/trial-request.ts'
import { baseRootfs } from '../base-image.ts'
import { startDockerd } from '../dockerd.ts'
import { PACKAGE_HOSTS } from '../package-hosts.ts'
import { provideImage } from '../sandboxes/imported-image.ts'
import { createNamespace, importBuildBase, testKubeconfig } from '../sandboxes/kubernetes-subject.ts'

export const IMAGE = 'debian:bookworm-slim'

export const SANDBOXES = ['bwrap', 'runc', 'docker'] as const
export type SandboxName = (typeof SANDBOXES)[number] | 'kubernetes'

/** An image with the folder that holds its files. */
export type TestImage = { name: string; rootfs: () => Promise<string> }

/**
 * Opens a provider with a base image and others, and a folder for tasks and output inside `parent`. `routeTo` returns the
 * socket through which the Docker engine is used.
 */
export async function openTrialRunner(
  name: SandboxName,
  { images = [], parent = tmpdir(), routeTo }: RunnerOptions = {},
) {
  const folder = mkdtempSync(join(parent, 'assay-trials-'))
  const { provider, close } = await openProvider(name, folder, { images, routeTo })
  return {
    provider,
    folder,
    run: (taskFolder: string, harness: Harness, verifyMode: VerifyMode = 'workspace', more: ExtraOptions = {}) =>
      runTask(provider, { taskFolder, harness, verifyMode, outputFolder: folder, ...more }),
    /** Reads a file that the last trial wrote to its output folder. */
    output: (...path: string[]) => readFileSync(join(folder, ...path), 'utf8'),
    async [Symbol.asyncDispose]() {
      await close()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

type RunnerOptions = { images?: TestImage[]; parent?: string; routeTo?: RouteTo | undefined }
type RouteTo = (engine: string, folder: string) => Promise<string>

type OpenedProvider = { provider: SandboxProvider; close(): Promise<void> }

function openProvider(
  name: SandboxName,
  folder: string,
  { images = [], routeTo }: RunnerOptions,
): Promise<OpenedProvider> {
  if (name === 'kubernetes') return openKubernetes(folder)
  return name === 'docker' ? openDocker(folder, images, routeTo) : openLocal(name, folder, images)
}

/** Creates a namespace in the test cluster, which must have or pull all images. */
async function openKubernetes(dataFolder: string): Promise<OpenedProvider> {
  if (testKubeconfig === undefined) throw new Error('ASSAY_TEST_KUBECONFIG is not set.')
  const namespace = await createNamespace(testKubeconfig)
  const installation = randomUUID().slice(0, 8)
  const log = createLog('silent')
  await importBuildBase(dataFolder)
  const provider = createKubernetesProvider({
    open: namespace.open,
    installation,
    dataFolder,
    buildHosts: PACKAGE_HOSTS,
    log,
  })
  return { provider, close: async () => namespace[Symbol.asyncDispose]() }
}

async function openLocal(runtime: 'bwrap' | 'runc', dataFolder: string, images: TestImage[]): Promise<OpenedProvider> {
  const log = createLog('silent')
  const provider = createLocalProvider({ dataFolder, runtime, allowHostBase: false, buildHosts: PACKAGE_HOSTS, log })
  await provideImage(dataFolder, await baseRootfs(), IMAGE, { builds: true })
  for (const { name, rootfs } of images) await provideImage(dataFolder, await rootfs(), name)
  return { provider, close: async () => {} }
}

/** Starts its own Docker engine. */
async function openDocker(dataFolder: string, images: TestImage[], routeTo?: RouteTo): Promise<OpenedProvider> {
  const folders = [[IMAGE, await baseRootfs()]]
  for (const { name, rootfs } of images) folders.push([name, await rootfs()])
  const dockerd = await startDockerd({ images: Object.fromEntries(folders) })
  const provider = createDockerProvider({
    connection: { kind: 'unix', path: (await routeTo?.(dockerd.socket, dataFolder)) ?? dockerd.socket },
    installation: randomUUID().slice(0, 8),
    dataFolder,
    log: createLog('silent'),
  })
  return { provider, close: async () => dockerd[Symbol.asyncDispose]() }
}

type ExtraOptions = Partial<
  Pick<
    TrialRequest,
    | ('signal' | 'onPhase' | 'onLog' | 'networks' | 'egress' | 'variables')
    | ('isProven' | 'outputFolder' | 'model' | 'bundles' | 'savesPatch' | 'configuration' | 'timeoutMultiplier')
  >
>
type RunOptions = ExtraOptions & { taskFolder: string; harness: Harness; verifyMode: VerifyMode; outputFolder: string }

async function runTask(provider: SandboxProvider, options: RunOptions): Promise<TrialRecord> {
  const { task, digest } = await readTask(await openFolderSource(options.taskFolder))
  const request = {
    variables: {},
    signal: new AbortController().signal,
    onPhase: () => {},
    ...options,
    task,
    digest,
    folder: options.taskFolder,
  }
  if (options.harness.isControl) return runTrial(provider, request)
  const key = `${digest} ${options.verifyMode}`
  const known =
    solutionPaths.get(key) ?? listSolutionPaths(provider, { ...request, configuration: undefined }, options.verifyMode)
  solutionPaths.set(key, known)
  return runTrial(provider, { ...request, carried: await known })
}

/** Paths that reference solutions change, by the digest of their task and the mode. */
const solutionPaths = new Map<string, Promise<string[]>>()

/** Returns the task.toml of a task on the base image, or with a Dockerfile (null). Lines are added to the sections. */
export const taskToml = (
  more: { top?: string; environment?: string; agentSec?: number; verifier?: string; end?: string } = {},
  image: string | null = IMAGE,
): string => `schema_version = "1.4"
${more.top ?? ''}
[task]
name = "assay/hello"
[environment]
${image === null ? '' : `docker_image = "${image}"`}
workdir = "/app"
${more.environment ?? ''}
[agent]
timeout_sec = ${more.agentSec ?? 20}
[verifier]
timeout_sec = 20
${more.verifier ?? ''}
${more.end ?? ''}
`

const TEST_SH = `#!/bin/bash
if [ "$(cat /app/hello.txt)" = hello ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
`

/** Writes a task whose solution is one line. Given files are added to its files, or replace them. */
export function writeTask(folder: string, files: Record<string, string> = {}): string {
  const all = {
    'task.toml': taskToml(),
    'instruction.md': 'Write the word hello to /app/hello.txt.\n',
    'environment/.gitkeep': '',
    'tests/test.sh': TEST_SH,
    'solution/solve.sh': '#!/bin/bash\necho hello > /app/hello.txt\n',
    ...files,
  }
  for (const [path, content] of Object.entries(all)) {
    const target = join(folder, path)
    mkdirSync(dirname(target), { recursive: true })
    writeFileSync(target, content)
    if (path.endsWith('.sh')) chmodSync(target, 0o755)
  }
  return folder
}
