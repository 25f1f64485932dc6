import { join } from 'node:path'
import { listChanges } from '../kernel/changes.ts'
import { collectTar } from '../kernel/collect.ts'
import type { Holder } from '../kernel/holder.ts'
import type { Remains } from '../sandbox.ts'
import type { Files } from './files.ts'
import type { Joint } from './group.ts'

/** The inside of `Remains`: what a later sandbox is seeded from. */
export type Left = {
  imageDigest: string
  holder: Holder
  files: Files
  root: string
  joint: Joint | undefined
  /** Sandboxes that still use its layers. It is not taken away before them. */
  users: Set<Promise<unknown>>
  /** Under way, or waiting for the users. */
  removal: Promise<void> | undefined
}

const insides = new WeakMap<Remains, Left>()

export function makeRemains(sandboxId: string, left: Left, storeFolder: string): Remains {
  const remains: Remains = {
    sandboxId,
    collect: (path, caps) => collectTar(left.root, path, caps),
    changes: () =>
      listChanges({
        changed: left.files.changes.map((layer) => join(left.holder.root, storeFolder, layer)),
        image: left.files.layers.map((layer) => join(storeFolder, layer)),
      }),
  }
  insides.set(remains, left)
  return remains
}

export function leftOf(remains: Remains): Left {
  const left = insides.get(remains)
  if (left === undefined) throw new Error(`What sandbox ${remains.sandboxId} left is not of this provider.`)
  return left
}
