import { join, posix } from 'node:path'
import { findInside } from '../kernel/inside.ts'
import { SandboxUnavailable } from '../sandbox.ts'
import { findAccount } from './account.ts'
import type { Building } from './building.ts'
import { refuseLinks } from './files.ts'
import { line } from './shell.ts'

/** A target that ends with / is a folder. */
export type CopyRequest = { sources: string[]; target: string; owner: string | undefined; line: number }

export async function copyInto(building: Building, request: CopyRequest): Promise<void> {
  const { holder, root } = building
  const { target, sources, line: number } = request
  const seen = join(holder.root, root)
  await refuseLinks(seen, target)
  const into = target.endsWith('/') || (await findInside(seen, target))?.stats.isDirectory() === true
  const folder = into ? target : posix.dirname(target)
  await holder.runOrThrow(`Line ${number}`, line('mkdir', '-p', '-m', '755', '--', join(root, folder)))
  for (const source of sources) await copyOne(building, request, source, into)
}

async function copyOne(building: Building, request: CopyRequest, source: string, into: boolean): Promise<void> {
  const { holder, root, context } = building
  const { target, owner, line: number } = request
  const seen = join(holder.root, root)
  const found = await findInside(context, source)
  if (!found) throw new SandboxUnavailable(`Line ${number} of the Dockerfile: there is no ${source}.`)
  // The contents of a folder are copied, not the folder.
  const place = found.stats.isDirectory() || !into ? target : join(target, posix.basename(source))
  await refuseLinks(seen, place)
  // A link that a command has put below the target would be written through, to a file of this machine.
  const words = ['cp', '-a', '--no-preserve=ownership', '--remove-destination', '-T', '--']
  const copy = line(...words, found.path, join(root, place))
  const give = owner === undefined ? '' : ` && ${line(...(await ownerWords(seen, owner)), join(root, place))}`
  await holder.runOrThrow(`Line ${number}: COPY`, `${copy}${give}`)
}

async function ownerWords(root: string, owner: string): Promise<string[]> {
  const { uid, gid } = await findAccount(root, owner)
  return ['chown', '-R', '-h', `${uid}:${gid}`, '--']
}
