import { once } from 'node:events'
import { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { LABEL } from '../kernel/ownership.ts'
import { SandboxUnavailable } from '../sandbox.ts'
import { ignoring, TRANSFER_TIMEOUT_MS } from './client.ts'
import { isolationSettings, launcherMounts } from './container.ts'
import { type DockerEngine, labelsOf } from './engine.ts'

const DRAFT_TIMEOUT_MS = 10 * 60_000
const CLOSE_TIMEOUT_MS = 30_000
const PROCESSES_MAX = 32

type DraftContainer = {
  image: string
  /** Null when the container is created and not started. */
  command: string[] | null
  /** Writes to its files before it starts. */
  fill?: ((id: string) => Promise<unknown>) | undefined
}

/** Calls `use` with a temporary container in which only trusted programs run. The container is always removed. */
export async function withDraft<T>(
  engine: DockerEngine,
  { image, command, fill }: DraftContainer,
  use: (id: string) => Promise<T>,
): Promise<T> {
  const { docker, launcher } = engine
  const body = {
    Image: image,
    User: '0:0',
    // The engine requires an entrypoint, also for a container that is never started.
    Entrypoint: command ?? ['/'],
    Labels: labelsOf(engine, 'draft', { [LABEL.deadline]: String(Date.now() + DRAFT_TIMEOUT_MS) }),
    Healthcheck: { Test: ['NONE'] },
    HostConfig: { ...isolationSettings(PROCESSES_MAX), NetworkMode: 'none', Mounts: launcherMounts(launcher) },
  }
  const { Id } = await docker.call<{ Id: string }>('POST', '/containers/create', { body })
  try {
    await fill?.(Id)
    if (command !== null) await runDraft(engine, Id)
    return await use(Id)
  } finally {
    await docker.call('DELETE', `/containers/${Id}`, { query: { force: true, v: true } }).catch(ignoring(404))
  }
}

async function runDraft({ docker }: DockerEngine, id: string): Promise<void> {
  const stream = await docker.attach(`/containers/${id}/attach`, { query: { stream: 1, stdout: 1, stderr: 1 } })
  const output = text(Readable.from(stream))
  await docker.call('POST', `/containers/${id}/start`)
  const { StatusCode } = await docker.call<{ StatusCode: number }>('POST', `/containers/${id}/wait`, {
    timeoutMs: DRAFT_TIMEOUT_MS,
  })
  if (!stream.readableEnded) await once(stream, 'close', { signal: AbortSignal.timeout(CLOSE_TIMEOUT_MS) })
  if (StatusCode !== 0) throw new SandboxUnavailable(`An image could not be changed: ${(await output).trim()}`)
}

/** Commits the files of a container as an image. An image without a name is found by its labels. */
export async function commit(
  { docker }: DockerEngine,
  container: string,
  name: { repo: string; tag: string } | undefined,
  labels: Record<string, string>,
): Promise<string> {
  const query = { container, pause: false, ...name }
  const { Id } = await docker.call<{ Id: string }>('POST', '/commit', {
    query,
    body: { Labels: labels },
    timeoutMs: TRANSFER_TIMEOUT_MS,
  })
  return Id
}
