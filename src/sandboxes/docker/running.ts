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
  /** When the last of it has come. */
  output: Promise<{ bytes: number }>
  ports: OpenPorts
  hits: Hits
}

export type Container = {
  id: string
  /** 0 where its process cannot be seen. */
  pid: number
  /** Undefined where they cannot be read. */
  layers: ContainerLayers | undefined
  /** Paths of ENGINE_FILES on this machine. Empty where they cannot be read. */
  engineFiles: string[]
}
