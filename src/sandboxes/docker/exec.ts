import { open } from 'node:fs/promises'
import { Readable } from 'node:stream'
import { setTimeout as wait } from 'node:timers/promises'
import { KILLED_CODE, parseExitCode } from '../kernel/exit.ts'
import { toPathParts } from '../kernel/sandbox-path.ts'
import { createUploadError, packUploads } from '../kernel/upload-archive.ts'
import { type ExecSpec, type Exit, type SandboxSpec, SandboxUnavailable } from '../sandbox.ts'
import { findIdentity, repairAccounts } from './account.ts'
import { type Docker, TRANSFER_TIMEOUT_MS } from './client.ts'
import { buildExecCommand, type Container, isContainerRunning, statIn, toEngineUser, toEnvList } from './container.ts'
import type { DockerEngine } from './engine.ts'

type ExecTarget = { engine: DockerEngine; spec: SandboxSpec; container: Container; isOver: () => boolean }

/** Runs another command in a running container. After its timeout its output is no longer read. */
export async function execIn({ engine, spec, container, isOver }: ExecTarget, exec: ExecSpec): Promise<Exit> {
  if (isOver()) throw new SandboxUnavailable(`Sandbox ${spec.id} has ended.`)
  const { docker, launcher } = engine
  const { seconds: secondsMax, outputBytes: outputMaxBytes } = exec.limits
  const startedAt = performance.now()
  const { id: containerId, layers } = container
  await repairAccounts(engine, { id: containerId, image: spec.image.digest, layers })
  const user = exec.user ?? spec.user ?? spec.image.user
  const identity = await findIdentity(engine, spec.image, user)
  const env = { ...spec.image.env, ...spec.env, ...exec.env }
  const body = {
    AttachStdin: true,
    AttachStdout: true,
    AttachStderr: true,
    Tty: false,
    Cmd: buildExecCommand(launcher, { command: exec.command, seconds: secondsMax, identity, env }),
    Env: toEnvList(exec.env),
    User: toEngineUser(identity, user),
    WorkingDir: exec.workdir ?? spec.workdir ?? spec.image.workdir,
  }
  const { Id } = await docker.call<{ Id: string }>('POST', `/containers/${containerId}/exec`, { body })
  const stream = await docker.attach(`/exec/${Id}/start`, { body: { Detach: false, Tty: false } })
  const output = copyFrames(stream, { file: exec.outputFile, maxBytes: outputMaxBytes })
  stream.on('error', () => {}) // reported by `output`
  stream.end(exec.input)

  const timer = new AbortController()
  const timeout = wait(secondsMax * 1000, true, { signal: timer.signal }).catch(() => false)
  const timedOut = await Promise.race([timeout, output.then(() => false)])
  timer.abort()
  if (timedOut) stream.destroy()
  const { bytes } = await output.catch(() => ({ bytes: 0 }))
  const code = timedOut ? null : await readExitCode(engine, Id, containerId)
  const outputLimit = bytes > outputMaxBytes ? 'output' : null
  const limit = timedOut ? 'seconds' : outputLimit
  return { code, limit, seconds: (performance.now() - startedAt) / 1000, outputBytes: bytes }
}

type ExecState = { Running: boolean; ExitCode: number | null }
/** Time that the engine may take to report the exit code of a command whose output has ended. */
const EXIT_CODE_TIMEOUT_MS = 5000

/**
 * Returns the exit code, which the engine knows a moment after the output ends. Null when the end of the sandbox ended
 * the command.
 */
async function readExitCode({ docker }: DockerEngine, id: string, containerId: string): Promise<number | null> {
  const deadline = performance.now() + EXIT_CODE_TIMEOUT_MS
  for (let pauseMs = 2; performance.now() < deadline; pauseMs = Math.min(pauseMs * 2, 100)) {
    const { Running, ExitCode } = await docker.call<ExecState>('GET', `/exec/${id}/json`)
    if (Running) {
      await wait(pauseMs)
      continue
    }
    if (ExitCode === KILLED_CODE && (await hasEnded(docker, containerId))) return null
    return parseExitCode(String(ExitCode)) ?? null
  }
  return null
}

/**
 * Reports whether the container has ended. A command that died with its sandbox looks like one that was killed, and the
 * engine reports the end of the container a moment later.
 */
async function hasEnded(docker: Docker, containerId: string): Promise<boolean> {
  for (const pauseMs of [0, 20, 100]) {
    await wait(pauseMs)
    if (!(await isContainerRunning(docker, containerId))) return true
  }
  return false
}

type ContainerUploads = { id: string; spec: SandboxSpec; workspace: Readable[] }

/** Uploads all files for a container in one archive before it starts, because each upload request is slow. */
export async function putUploads(engine: DockerEngine, { id, spec, workspace }: ContainerUploads): Promise<void> {
  if (workspace.length === 0 && spec.uploads.length === 0) return
  const createdFolders = new Set<string>()
  for (const { target } of spec.uploads)
    for (const path of await listMissingFolders(engine, id, target)) createdFolders.add(path)
  const body = Readable.from(packUploads(workspace, spec.uploads, createdFolders), { objectMode: false })
  const failed = Promise.withResolvers<never>()
  failed.promise.catch(() => {})
  // The reason of a refused upload is more useful than the engine's message about a truncated archive.
  body.once('error', failed.reject)
  const put = engine.docker.call('PUT', `/containers/${id}/archive`, {
    query: { path: '/' },
    body,
    timeoutMs: TRANSFER_TIMEOUT_MS,
  })
  await Promise.race([
    put.catch((error: unknown) => (body.errored ? failed.promise : Promise.reject(error))),
    failed.promise,
  ])
}

/** Lists the missing folders of a target. Refuses a link along the path, which would redirect the archive. */
async function listMissingFolders({ docker }: DockerEngine, id: string, target: string): Promise<string[]> {
  const parts = toPathParts(target)
  for (let length = 1; length <= parts.length; length += 1) {
    const path = `/${parts.slice(0, length).join('/')}`
    const stats = await statIn(docker, id, path)
    if (stats === undefined) return parts.slice(length - 1).map((_, index) => parts.slice(0, length + index).join('/'))
    if (!stats.isFolder) throw createUploadError(path, stats.isLink ? 'is a link in the image' : 'is not a folder')
  }
  return []
}

const HEADER_BYTES = 8
const LENGTH_OFFSET = 4

/** `onOutput` is called for every chunk. */
type FrameOutput = { file: string; maxBytes: number; onOutput?: () => void }

/**
 * Copies the output of a container to a file, up to a limit, and counts the rest. The engine sends frames: a header
 * with a length, then that many bytes.
 */
export async function copyFrames(
  stream: Readable,
  { file, maxBytes, onOutput = () => {} }: FrameOutput,
): Promise<{ bytes: number }> {
  await using target = await open(file, 'w', 0o600)
  let bytes = 0
  for await (const part of readPayloads(stream)) {
    onOutput()
    const remaining = Math.max(0, maxBytes - bytes)
    bytes += part.length
    if (remaining > 0) await target.writeFile(part.length <= remaining ? part : part.subarray(0, remaining))
  }
  return { bytes }
}

async function* readPayloads(stream: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  let header = Buffer.alloc(0)
  let remainingBytes = 0
  for await (const chunk of stream) {
    let at = 0
    while (at < chunk.length) {
      if (remainingBytes > 0) {
        const part = chunk.subarray(at, at + remainingBytes)
        at += part.length
        remainingBytes -= part.length
        yield part
        continue
      }
      const part = chunk.subarray(at, at + HEADER_BYTES - header.length)
      header = Buffer.concat([header, part])
      at += part.length
      if (header.length < HEADER_BYTES) continue
      remainingBytes = header.readUInt32BE(LENGTH_OFFSET)
      header = Buffer.alloc(0)
    }
  }
}
