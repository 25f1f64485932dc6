import { join } from 'node:path'
import { listChanges } from '../kernel/changes.ts'
import { collectTar } from '../kernel/collect.ts'
import type { NamespaceProcess } from '../kernel/namespace-process.ts'
import type { StoppedSandbox } from '../sandbox.ts'
import type { SandboxFiles } from './files.ts'
import type { LocalNetwork } from './network.ts'

/** Private part of a `StoppedSandbox`, from which a later sandbox can start. */
export type StoppedFiles = {
  imageDigest: string
  namespaceProcess: NamespaceProcess
  files: SandboxFiles
  root: string
  localNetwork: LocalNetwork | undefined
  /** Removals of the later sandboxes that use its layers. */
  laterRemovals: Set<Promise<unknown>>
  /** The removal of its own layers, once it has been requested. It waits for `laterRemovals`. */
  removal: Promise<void> | undefined
}

const privateFiles = new WeakMap<StoppedSandbox, StoppedFiles>()

export function createStoppedSandbox(sandboxId: string, own: StoppedFiles, storeFolder: string): StoppedSandbox {
  const { root, files, namespaceProcess } = own
  const stopped: StoppedSandbox = {
    sandboxId,
    collect: (path, caps) => collectTar(root, path, caps),
    changes: () =>
      listChanges({
        changed: files.changes.map((layer) => join(namespaceProcess.root, storeFolder, layer)),
        image: files.layers.map((layer) => join(storeFolder, layer)),
      }),
  }
  privateFiles.set(stopped, own)
  return stopped
}

export function requireStoppedFiles(stopped: StoppedSandbox): StoppedFiles {
  const files = privateFiles.get(stopped)
  if (files === undefined) throw new Error(`Sandbox ${stopped.sandboxId} belongs to another provider.`)
  return files
}
