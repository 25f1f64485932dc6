import { execFile } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { promisify } from 'node:util'
import { createLog } from '../src/platform/log.ts'
import { createDockerProvider } from '../src/sandboxes/docker.ts'
import { runExec } from '../src/sandboxes/kubernetes/exec-stream.ts'
import { createKubernetesProvider } from '../src/sandboxes/kubernetes.ts'
import { createLocalProvider } from '../src/sandboxes/local.ts'
import type { SandboxProvider } from '../src/sandboxes/sandbox.ts'
import { baseRootfs } from '../test/support/base-image.ts'
import { baseImages, startDockerd } from '../test/support/dockerd.ts'
import { createNamespace } from '../test/support/sandboxes/kubernetes-subject.ts'

/** A sandbox provider and the minimal use of its runtime as baseline. */
export type SandboxContender = {
  name: string
  provider: SandboxProvider
  folder: string
  /** Runs the baseline cycle `count` times in sequence. */
  bare(count: number): Promise<void>
  barTimes: number
  barThroughput?: number
  /** Maximum wall time of a trial, as a ratio to the time of its task. */
  barWall: number
}

const run = promisify(execFile)
const IMAGE = 'debian:bookworm-slim'

/** Yields the contenders of one machine in sequence. Each is removed before the next starts. */
export async function* contenders(): AsyncGenerator<SandboxContender> {
  yield* docker()
  yield* local('bwrap', 7.5, bareBwrap)
  yield* local('runc', 5.2, bareRunc)
}

/** Creates a container that runs `true`, waits for it and removes it, over one connection. */
async function* docker(): AsyncGenerator<SandboxContender> {
  const folder = await mkdtemp(join(tmpdir(), 'assay-bench-'))
  await using dockerd = await startDockerd({ images: await baseImages() })
  const connection = { kind: 'unix' as const, path: dockerd.socket }
  const provider = createDockerProvider({
    connection,
    installation: 'bench',
    dataFolder: folder,
    log: createLog('silent'),
  })
  const body = { Image: IMAGE, Cmd: ['true'], HostConfig: { NetworkMode: 'none', LogConfig: { Type: 'none' } } }
  const cycle = async () => {
    const { Id } = await dockerd.docker.call<{ Id: string }>('POST', '/containers/create', { body })
    await dockerd.docker.call('POST', `/containers/${Id}/start`)
    await dockerd.docker.call('POST', `/containers/${Id}/wait`)
    await dockerd.docker.call('DELETE', `/containers/${Id}`)
  }
  try {
    yield {
      name: 'docker',
      provider,
      folder,
      barTimes: 2.8,
      barThroughput: 0.3,
      barWall: 1.02,
      bare: async (count) => {
        for (let done = 0; done < count; done++) await cycle()
      },
    }
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

/** Yields the cluster of `kubeconfig`. Its baseline creates a pod, runs `true` in it when it runs, and removes it. */
export async function* clusterContenders(kubeconfig: string): AsyncGenerator<SandboxContender> {
  const folder = await mkdtemp(join(tmpdir(), 'assay-bench-'))
  await using place = await createNamespace(kubeconfig)
  const { kubernetes: client, namespace, open } = place
  const provider = createKubernetesProvider({
    open,
    installation: 'bench',
    dataFolder: folder,
    log: createLog('silent'),
  })
  await provider.selfTest()
  const path = `/api/v1/namespaces/${namespace}/pods`
  const cycle = async () => {
    const pod = `bare-${randomUUID()}`
    const container = { name: 'main', image: IMAGE, command: ['sleep', 'infinity'] }
    const spec = { containers: [container], automountServiceAccountToken: false }
    await client.call('POST', path, { body: { metadata: { name: pod }, spec } })
    const phase = async () => (await client.call<{ status: { phase: string } }>('GET', `${path}/${pod}`)).status.phase
    while ((await phase()) !== 'Running') await wait(100)
    await runExec(client, { namespace, pod, container: 'main' }, ['true'], { timeoutMs: 60_000 })
    await client.call('DELETE', `${path}/${pod}`, { body: { gracePeriodSeconds: 0 } })
  }
  try {
    yield {
      name: 'kubernetes',
      provider,
      folder,
      barTimes: 2,
      barWall: 1.05,
      bare: async (count) => {
        for (let done = 0; done < count; done++) await cycle()
      },
    }
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

type BareLocal = (rootfs: string, folder: string) => Promise<(count: number) => Promise<void>>

async function* local(
  runtime: 'bwrap' | 'runc',
  barTimes: number,
  makeBare: BareLocal,
): AsyncGenerator<SandboxContender> {
  const folder = await mkdtemp(join(tmpdir(), 'assay-bench-'))
  const provider = createLocalProvider({ dataFolder: folder, runtime, allowHostBase: false, log: createLog('silent') })
  const rootfs = await baseRootfs()
  await provider.importRootfs(rootfs, IMAGE)
  try {
    yield { name: `local ${runtime}`, provider, folder, barTimes, barWall: 1.02, bare: await makeBare(rootfs, folder) }
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

const LOOP = 'n=$1; shift; while [ $n -gt 0 ]; do n=$((n - 1)); '

/** Mounts an overlay, runs `true` in it and unmounts it. */
async function bareBwrap(rootfs: string, folder: string): Promise<(count: number) => Promise<void>> {
  const script = `cd "$(mktemp -d "$2/bare-XXXXXX")" && mkdir upper work root; R=$3; set -- "$1"; ${LOOP}
    mount -t overlay overlay -o lowerdir=$R,upperdir=upper,workdir=work root || exit 1
    bwrap --bind root / --proc /proc --dev /dev --unshare-pid --unshare-net --unshare-ipc --unshare-uts --die-with-parent true || exit 1
    umount root; done`
  return async (count) => {
    await run('unshare', ['--mount', 'sh', '-c', script, 'bare', String(count), folder, rootfs])
  }
}

/** Runs `true` with `runc run`. The overlay is mounted once. */
async function bareRunc(rootfs: string, folder: string): Promise<(count: number) => Promise<void>> {
  const bundle = join(folder, 'bare-bundle')
  for (const name of ['upper', 'work', 'rootfs']) await mkdir(join(bundle, name), { recursive: true })
  await run('runc', ['spec'], { cwd: bundle })
  const config = JSON.parse(await readFile(join(bundle, 'config.json'), 'utf8'))
  config.process.terminal = false
  config.process.args = ['true']
  delete config.process.rlimits // raising them is not allowed everywhere
  await writeFile(join(bundle, 'config.json'), JSON.stringify(config))
  const script = `cd "$2" && mount -t overlay overlay -o lowerdir=$3,upperdir=upper,workdir=work rootfs; set -- "$1"; ${LOOP}
    runc run "assay-bare-$$-$n" < /dev/null || exit 1; done; umount rootfs`
  return async (count) => {
    await run('unshare', ['--mount', 'sh', '-c', script, 'bare', String(count), bundle, rootfs])
  }
}
