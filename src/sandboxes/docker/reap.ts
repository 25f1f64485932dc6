import { readdir, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { isAbandoned, LABEL } from '../kernel/ownership.ts'
import { ignoring } from './client.ts'
import type { DockerEngine } from './engine.ts'
import { removeNetwork } from './network.ts'
import { portsFolder } from './relay.ts'

type Labelled = { Id: string; Labels: Record<string, string> | null }

/** Removes objects of dead processes of this installation: containers first, then networks, volumes and images. */
export async function reap(engine: DockerEngine): Promise<number> {
  const { docker, log } = engine
  const containers = await abandoned(engine, '/containers/json', { all: true })
  for (const { Id, Labels } of containers) {
    const id = Labels?.[LABEL.sandbox]
    try {
      await docker.call('DELETE', `/containers/${Id}`, { query: { force: true, v: true } }).catch(ignoring(404, 409))
      if (id !== undefined) await rm(portsFolder(engine, id), { recursive: true, force: true })
      log.info({ sandbox: id }, 'removed an orphaned container')
    } catch (error) {
      // A failed removal must not prevent the others.
      log.error({ sandbox: id, error: String(error) }, 'could not remove an orphaned container')
    }
  }
  for (const { Labels } of await abandoned(engine, '/networks'))
    await removeNetwork(engine, Labels?.[LABEL.group] ?? '')
  await reapVolumes(engine)
  for (const { Id } of await abandoned(engine, '/images/json', { all: true })) {
    await docker.call('DELETE', `/images/${Id}`, { query: { force: true } }).catch(ignoring(404, 409))
  }
  await sweepFolder(engine.folder)
  return containers.filter(({ Labels }) => Labels?.[LABEL.role] === 'sandbox').length
}

const ofOurs = ({ installation }: DockerEngine): string =>
  JSON.stringify({ label: [`${LABEL.installation}=${installation}`] })

async function abandoned(engine: DockerEngine, path: string, query = {}): Promise<Labelled[]> {
  const found = await engine.docker.call<Labelled[]>('GET', path, { query: { ...query, filters: ofOurs(engine) } })
  return onlyAbandoned(found)
}

async function onlyAbandoned<T extends { Labels: Record<string, string> | null }>(found: T[]): Promise<T[]> {
  const answers = await Promise.all(found.map(({ Labels }) => isAbandoned(Labels ?? {})))
  return found.filter((_, index) => answers[index])
}

type LabelledVolume = { Name: string; Labels: Record<string, string> | null }

/** Removes volumes of sandbox networks that no longer exist. */
async function reapVolumes(engine: DockerEngine): Promise<void> {
  const query = { filters: ofOurs(engine) }
  const { Volumes } = await engine.docker.call<{ Volumes: LabelledVolume[] | null }>('GET', '/volumes', { query })
  for (const { Name } of await onlyAbandoned(Volumes ?? [])) {
    await engine.docker.call('DELETE', `/volumes/${Name}`).catch(ignoring(404, 409))
  }
}

const OLD_MS = 10 * 60_000

/** Removes temporary folders of processes that died while they tested the engine, which takes seconds. */
async function sweepFolder(folder: string): Promise<void> {
  for (const name of (await readdir(folder)).filter((entry) => /^(try|spool)-/.test(entry))) {
    const found = await stat(join(folder, name)).catch(() => undefined)
    if (found && Date.now() - found.mtimeMs > OLD_MS) await rm(join(folder, name), { recursive: true, force: true })
  }
}
