import { join } from 'node:path'
import { listChanges } from '../kernel/changes.ts'
import { collectTar } from '../kernel/collect.ts'
import type { NamespaceProcess } from '../kernel/namespace-process.ts'
import type { StoppedSandbox } from '../sandbox.ts'
import type { SandboxFiles } from './files.ts'
import type { LocalNetwork } from './network.ts'

/** The inside of `Remains`: what a later sandbox is seeded from. */
export type StoppedFiles = {
  imageDigest: string
  holder: NamespaceProcess
  files: SandboxFiles
  root: string
  localNetwork: LocalNetwork | undefined
  /** Sandboxes that still use its layers. It is not taken away before them. */
  users: Set<Promise<unknown>>
  /** Under way, or waiting for the users. */
  removal: Promise<void> | undefined
}

const insides = new WeakMap<StoppedSandbox, StoppedFiles>()

export function createStoppedSandbox(sandboxId: string, left: StoppedFiles, storeFolder: string): StoppedSandbox {
  const remains: StoppedSandbox = {
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

export function stoppedFilesOf(remains: StoppedSandbox): StoppedFiles {
  const left = insides.get(remains)
  if (left === undefined) throw new Error(`What sandbox ${remains.sandboxId} left is not of this provider.`)
  return left
}
