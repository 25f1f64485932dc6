import type { AllowedHost } from '../egress/rules.ts'
import type { NamespaceProcess } from '../kernel/namespace-process.ts'
import type { PrepareOptions } from '../sandbox.ts'
import type { StoredImage } from './image-store.ts'
import type { Host } from './machine.ts'

/**
 * `entering` is a line of shell that puts a command where it is limited; `buildHosts` it may reach besides public ones. The
 * disk of `layers` is watched.
 */
export type BuildingOptions = PrepareOptions & {
  entering: string
  buildHosts: readonly AllowedHost[]
  layers: string[]
}

/** A build at work. What it changes goes into one layer. */
export type Building = BuildingOptions & {
  host: Host
  holder: NamespaceProcess
  context: string
  base: StoredImage
  /** Mount point of the files. */
  root: string
  env: Record<string, string>
  /** Win over what ARG says. */
  given: Record<string, string>
  /** Values of ARG: seen by RUN, not kept. */
  args: Record<string, string>
  /** Proxy settings for RUN, which do not become part of the image. */
  proxy: Record<string, string>
  workdir: string
  user: string
  entrypoint: string[]
  command: string[]
}
