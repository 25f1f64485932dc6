import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { findInside, partsOf } from '../kernel/inside.ts'
import { type Mount, SandboxUnsupported } from '../sandbox.ts'
import { refuseLinks, rootOf } from './files.ts'
import type { LocalNetwork } from './network.ts'
import type { LocalRunningSandbox } from './running.ts'
import { line } from './shell.ts'

type NetworkVolume = Extract<Mount, { kind: 'volume' }>
type Member = Pick<LocalRunningSandbox, 'host' | 'holder' | 'resources'>

const NAME = /^[A-Za-z0-9][\w.-]{0,99}$/

/** The folder of a volume. The first who uses it brings what its image has there, as with containers. */
export async function volumeFolder(
  localNetwork: LocalNetwork,
  member: Member,
  { name, target }: NetworkVolume,
): Promise<string> {
  if (!NAME.test(name)) throw new SandboxUnsupported(`A volume cannot be called ${JSON.stringify(name)}.`)
  const known = localNetwork.volumes.get(name)
  if (known) return known
  const filled = fill(join(localNetwork.folder, 'volumes', name), member, target)
  localNetwork.volumes.set(name, filled)
  filled.catch(() => localNetwork.volumes.delete(name))
  return filled
}

async function fill(folder: string, { host, holder, resources }: Member, target: string): Promise<string> {
  const root = rootOf(host, holder, resources.files)
  await refuseLinks(root, target)
  if ((await findInside(root, target))?.stats.isDirectory()) {
    const source = join(host.store.folder, resources.files.root, ...partsOf(target))
    await holder.runOrThrow(
      'Filling a volume',
      `rm -rf ${line(folder)} && ${line('cp', '-a', '-T', '--', source, folder)}`,
    )
  } else {
    await mkdir(folder, { recursive: true, mode: 0o755 })
  }
  return folder
}
