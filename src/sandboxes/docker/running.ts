import type { Duplex } from 'node:stream'
import type { SandboxSpec } from '../sandbox.ts'
import type { Engine } from './engine.ts'
import type { Hits } from './hits.ts'
import type { Layers } from './layers.ts'

export type OpenPorts = { close(): Promise<void> }

/** A container whose command runs. */
export type Running = {
  engine: Engine
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
  layers: Layers | undefined
  /** Paths of ENGINE_FILES on this machine. Empty where they cannot be read. */
  engineFiles: string[]
}
