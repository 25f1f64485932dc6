// Runs the real Harbor from PyPI in its own Debian, because it needs a newer Python than many machines have.
import { execFile, spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { cp, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { promisify } from 'node:util'
import { localServer } from './assay-command.ts'
import { cacheFolder } from './base-image.ts'
import { openBridge } from './bridge.ts'
import { baseImages, startDockerd } from './dockerd.ts'

const VERSION = '0.25.0'
/** Its dependencies are installed where the package index does not have the newest ones, which Harbor asks for. */
const OLDER_VERSION = '0.24.0'
const BUILD_TIMEOUT_MS = 30 * 60_000
const TRIAL_TIMEOUT_MS = 15 * 60_000
const run = promisify(execFile)

/** Builds Debian 13 with Python 3.13, the Docker client and compose. Moved to its final path when complete. */
const BUILD_SCRIPT = `set -e
[ -d "$1" ] && exit 0
rm -rf "$1.draft"
debootstrap --variant=minbase --include=ca-certificates,python3,python3-venv,git,docker-cli,docker-compose trixie "$1.draft"
cp /etc/resolv.conf /etc/hosts "$1.draft/etc/"
cp /etc/ssl/certs/ca-certificates.crt "$1.draft/etc/ssl/certs/"
chroot "$1.draft" python3 -m venv /opt/harbor
chroot "$1.draft" /opt/harbor/bin/pip install --quiet "harbor==$2" ||
  chroot "$1.draft" sh -ec '/opt/harbor/bin/pip install --quiet "harbor==$1"; /opt/harbor/bin/pip install --quiet --no-deps "harbor==$2"' pip "$3" "$2"
mv "$1.draft" "$1"`

/**
 * Runs Harbor in its own root. The mounts end with the mount namespace. Shared paths are the same inside and outside,
 * because the Docker engine resolves them outside.
 */
const RUN_SCRIPT = `set -e
root=$1; shared=$2; shift 2
mkdir -p "$root$shared"
mount --rbind "$shared" "$root$shared"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
exec chroot "$root" env -i HOME=/root PATH=/opt/harbor/bin:/usr/bin:/bin:/usr/sbin HARBOR_TELEMETRY=off DOCKER_HOST="unix://$shared/docker/docker.sock" harbor "$@"`

export type Harbor = AsyncDisposable & {
  version: string
  jobsFolder: string
  /** Runs a task and returns its rewards, or the exception. */
  runHarbor(taskFolder: string, agent: 'oracle' | 'nop'): Promise<Record<string, number> | string>
}

/** Starts Harbor. `images` maps additional base images to their root file systems. */
export async function startHarbor(images: Record<string, string> = {}): Promise<Harbor> {
  const root = await installHarbor()
  const shared = await mkdtemp(join(tmpdir(), 'assay-harbor-'))
  const bridge = await openBridge()
  await mkdir(join(shared, 'docker'))
  const dockerd = await startDockerd({
    folder: join(shared, 'docker'),
    args: bridge.args,
    images: { ...(await baseImages()), ...images },
  })
  return {
    version: VERSION,
    jobsFolder: join(shared, 'jobs'),
    runHarbor: (taskFolder, agent) => runTask({ root, shared }, taskFolder, agent),
    async [Symbol.asyncDispose]() {
      await dockerd[Symbol.asyncDispose]()
      await bridge[Symbol.asyncDispose]()
      await rm(shared, { recursive: true, force: true })
    },
  }
}

async function installHarbor(): Promise<string> {
  const root = join(await cacheFolder(), `harbor-${VERSION}`)
  await run('flock', [`${root}.lock`, 'sh', '-c', BUILD_SCRIPT, 'build', root, VERSION, OLDER_VERSION], {
    timeout: BUILD_TIMEOUT_MS,
    maxBuffer: 64e6,
  })
  return root
}

/** Starts `harbor view` on a folder of jobs and waits until it answers. */
export async function startHarborView(jobsFolder: string): Promise<AsyncDisposable & { url: string }> {
  const root = await installHarbor()
  const port = await findFreePort()
  const args = ['view', jobsFolder, '--jobs', '--no-build', '--host', '127.0.0.1', '--port', String(port)]
  // Every program of the script replaces the one before it, so the child is Harbor itself.
  const child = spawn('unshare', ['--mount', 'sh', '-c', RUN_SCRIPT, 'run', root, jobsFolder, ...args], {
    stdio: 'ignore',
  })
  const exited = once(child, 'exit')
  const url = `http://127.0.0.1:${port}`
  while (
    child.exitCode === null &&
    !(await fetch(`${url}/api/jobs`).then(
      ({ ok }) => ok,
      () => false,
    ))
  )
    await wait(200)
  if (child.exitCode !== null) throw new Error('harbor view ended.')
  return {
    url,
    async [Symbol.asyncDispose]() {
      child.kill('SIGKILL')
      await exited
    },
  }
}

async function findFreePort(): Promise<number> {
  const server = await localServer(() => {})
  await server[Symbol.asyncDispose]()
  return server.port
}

type HarborFolders = { root: string; shared: string }

async function runTask({ root, shared }: HarborFolders, taskFolder: string, agent: string) {
  const task = join(shared, `${basename(taskFolder)}-${agent}-${randomUUID().slice(0, 8)}`) // unique, because Harbor resumes a job with the same name
  const jobs = join(shared, 'jobs')
  await cp(taskFolder, task, { recursive: true, verbatimSymlinks: true })
  await removeNetworkModes(join(task, 'task.toml'))
  const args = ['run', '-p', task, '-a', agent, '-o', jobs, '--job-name', basename(task), '-n', '1', '-y', '-q']
  await run('unshare', ['--mount', 'sh', '-c', RUN_SCRIPT, 'run', root, shared, ...args], {
    timeout: TRIAL_TIMEOUT_MS,
    maxBuffer: 64e6,
  }).catch(() => undefined) // The result file contains the error.
  return readResult(join(jobs, basename(task)))
}

/** Removes network modes, which Harbor enforces with an image that it would have to pull. */
async function removeNetworkModes(path: string): Promise<void> {
  const text = await readFile(path, 'utf8')
  await writeFile(path, text.replaceAll(/^(network_mode|allowed_hosts|allow_internet) *=.*\n/gm, ''))
}

async function readResult(job: string): Promise<Record<string, number> | string> {
  for (const name of await readdir(job).catch(() => [])) {
    const text = await readFile(join(job, name, 'result.json'), 'utf8').catch(() => undefined)
    if (text === undefined) continue
    const { verifier_result: verdict, exception_info: exception } = JSON.parse(text)
    return verdict?.rewards ?? exception?.exception_message ?? 'Harbor wrote no reward.'
  }
  return 'Harbor wrote no result.'
}
