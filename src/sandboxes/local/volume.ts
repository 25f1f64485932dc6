import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { findInside, partsOf } from '../kernel/inside.ts'
import { type Mount, SandboxUnsupported } from '../sandbox.ts'
import { refuseLinks, rootOf } from './files.ts'
import type { Joint } from './group.ts'
import type { Running } from './running.ts'
import { line } from './shell.ts'

type Volume = Extract<Mount, { kind: 'volume' }>
type Member = Pick<Running, 'host' | 'holder' | 'made'>

const NAME = /^[A-Za-z0-9][\w.-]{0,99}$/

/** The folder of a volume. The first who uses it brings what its image has there, as with containers. */
export async function volumeFolder(joint: Joint, member: Member, { name, target }: Volume): Promise<string> {
  if (!NAME.test(name)) throw new SandboxUnsupported(`A volume cannot be called ${JSON.stringify(name)}.`)
  const known = joint.volumes.get(name)
  if (known) return known
  const filled = fill(join(joint.folder, 'volumes', name), member, target)
  joint.volumes.set(name, filled)
  filled.catch(() => joint.volumes.delete(name))
  return filled
}

async function fill(folder: string, { host, holder, made }: Member, target: string): Promise<string> {
  const root = rootOf(host, holder, made.files)
  await refuseLinks(root, target)
  if ((await findInside(root, target))?.stats.isDirectory()) {
    const source = join(host.store.folder, made.files.root, ...partsOf(target))
    await holder.must('Filling a volume', `rm -rf ${line(folder)} && ${line('cp', '-a', '-T', '--', source, folder)}`)
  } else {
    await mkdir(folder, { recursive: true, mode: 0o755 })
  }
  return folder
}
