import { createHash } from 'node:crypto'
import { join } from 'node:path'
import { arch } from 'node:process'
import node from './node.lock.json' with { type: 'json' }

/** One archive of the npm registry, and where it is unpacked. */
export type Tarball = {
  path: string
  name: string
  version: string
  /** `sha512-…`, of the archive. */
  integrity: string
  /** Undefined: of any machine. */
  cpu?: string
}

/** All archives that make a program, for each kind of machine. Made by `scripts/lock-harness.ts`. */
export type Lock = {
  package: string
  version: string
  /** Of all that the package would bring, only these are needed: the program itself, for one machine each. */
  only?: string[]
  tarballs: Tarball[]
}

/** What a bundle is made of: archives of the registry by their lock, or one that a workspace has sent, by its digest. */
export type Part = { id: string; target: string } & ({ lock: Lock } | { digest: string })

/** Programs of others. Installed once on this machine, shown read-only to sandboxes, and never passed on. */
export type Bundle = {
  parts: Part[]
  /** Ends with 0 where the bundle fits: the image's architecture and its C library. */
  probe: string[]
}

export const BUNDLE = '/assay/bundle'
const NODE_TARGET = '/assay/node'
/** Not the newest: with it one of the programs takes seven times the memory. */
export const NODE = `${NODE_TARGET}/program/bin/node`

/** A program that brings all it needs. The path is inside its bundle. */
export const nativeBundle = (id: string, lock: Lock, program: string): Bundle => ({
  parts: [{ id, lock, target: BUNDLE }],
  probe: [`${BUNDLE}/${program}`, '--version'],
})

/** A program in JavaScript, with the Node that it runs on. */
export const nodeBundle = (id: string, lock: Lock): Bundle => ({
  parts: [
    { id, lock, target: BUNDLE },
    { id: 'node', lock: node, target: NODE_TARGET },
  ],
  probe: [NODE, '--version'],
})

/** A program that a workspace has sent, with our Node if it wants one. */
export const sentBundle = ({ digest, node: withNode, probe }: SentBundle): Bundle => ({
  parts: [
    { id: 'sent', digest, target: BUNDLE },
    ...(withNode ? [{ id: 'node', lock: node, target: NODE_TARGET }] : []),
  ],
  probe,
})

/** By the digest of its archive. The probe is a command that ends with 0 where the program runs. */
export type SentBundle = { digest: string; node: boolean; probe: string[] }

export const onNode = (script: string): string[] => [NODE, `${BUNDLE}/${script}`]

export const tarballsFor = ({ tarballs }: Lock, cpu: string = arch): Tarball[] =>
  tarballs.filter((tarball) => tarball.cpu === undefined || tarball.cpu === cpu)

const DIGEST_LENGTH = 12

/** The name of the folder that it is installed in: another version, or other archives, are another folder. */
export function folderNameOf(part: { id: string } & ({ lock: Lock } | { digest: string })): string {
  // All of it: whoever sends archives must not be able to make two that look alike.
  if ('digest' in part) return `${part.id}-${part.digest.replace(/^sha256:/, '')}`
  const { id, lock } = part
  const digest = createHash('sha256').update(JSON.stringify(tarballsFor(lock)))
  return `${id}-${lock.version}-${digest.digest('hex').slice(0, DIGEST_LENGTH)}`
}

/** Where all are, in the folder of our data. */
export const bundlesFolder = (dataFolder: string): string => join(dataFolder, 'harnesses')
