import { link, readdir, rm, unlink } from 'node:fs/promises'
import { join } from 'node:path'
import { findInside } from '../kernel/inside.ts'
import { runProgram } from '../kernel/run-program.ts'

const PREFIX = '.wh.'
const OPAQUE = '.wh..wh..opq'

/**
 * Archives say by the name of a file that another was deleted, or that a folder hides what it had. Overlay wants a
 * device without a number in place of each. `below` are the layers under this one, the topmost first.
 */
export async function showDeletions(layer: string, below: string[]): Promise<void> {
  const device = `${layer}.deleted`
  await runProgram('mknod', [device, 'c', '0', '0'])
  try {
    await showIn({ layer, below, device }, '', false)
  } finally {
    await rm(device)
  }
}

type Showing = { layer: string; below: string[]; device: string }

/** Shows a folder of a layer. `isNew` means that it was recreated after a deletion, so that nothing below shows through. */
async function showIn(showing: Showing, folder: string, isNew: boolean): Promise<void> {
  const place = join(showing.layer, folder)
  const entries = await readdir(place, { withFileTypes: true })
  const marks = entries.map(({ name }) => name).filter((name) => name.startsWith(PREFIX))
  for (const name of marks) await unlink(join(place, name))

  const hidesAll = isNew || marks.includes(OPAQUE)
  const deleted = new Set(marks.filter((name) => name !== OPAQUE).map((name) => name.slice(PREFIX.length)))
  const hidden = hidesAll ? await visibleIn(showing.below, folder) : []
  await deleteNames(showing, folder, new Set([...deleted, ...hidden]))
  for (const entry of entries.filter((found) => found.isDirectory())) {
    await showIn(showing, join(folder, entry.name), hidesAll || deleted.has(entry.name))
  }
}

async function deleteNames({ layer, device }: Showing, folder: string, names: Set<string>): Promise<void> {
  const kept = new Set([...(await readdir(join(layer, folder))), '', '.', '..'])
  for (const name of names) if (!kept.has(name)) await link(device, join(layer, folder, name))
}

async function visibleIn(below: string[], folder: string): Promise<string[]> {
  const seen = new Map<string, boolean>()
  for (const layer of below) {
    const place = await findInside(layer, folder)
    if (place === undefined) continue
    if (!place.stats.isDirectory()) break
    for (const entry of await readdir(place.path, { withFileTypes: true })) {
      if (!seen.has(entry.name)) seen.set(entry.name, !entry.isCharacterDevice())
    }
  }
  return [...seen].filter(([, isThere]) => isThere).map(([name]) => name)
}
