import type { Duplex } from 'node:stream'
import type { SandboxSpec } from '../sandbox.ts'
import type { DockerEngine } from './engine.ts'
import type { Hits } from './hits.ts'
import type { ContainerLayers } from './layers.ts'

export type OpenPorts = { close(): Promise<void> }

/** A container whose command runs. */
export type RunningContainer = {
  engine: DockerEngine
  spec: SandboxSpec
  container: Container
  stream: Duplex
  /** Resolves when the output has ended. */
  output: Promise<{ bytes: number }>
  ports: OpenPorts
  hits: Hits
}

export type Container = {
  id: string
  /** Process id; 0 if it is not visible on this machine. */
  pid: number
  /** Undefined if the layers cannot be read. */
  layers: ContainerLayers | undefined
  /** Paths of ENGINE_FILES on this machine. Empty where they cannot be read. */
  engineFiles: string[]
}
