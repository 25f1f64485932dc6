import type { Server } from 'node:net'
import type { Holder } from '../kernel/holder.ts'
import type { SandboxSpec } from '../sandbox.ts'
import type { Control } from './control.ts'
import type { Files } from './files.ts'
import type { Joint } from './group.ts'
import type { Launched } from './launch.ts'
import type { Host } from './machine.ts'
import type { Output } from './output.ts'
import type { SandboxRecord } from './record.ts'

/** What has been made of a sandbox so far, to be given back. */
export type Made = {
  record: SandboxRecord
  files: Files
  holder: Holder | undefined
  /** On ports in the sandbox. */
  servers: Server[]
  control: Control | undefined
  membership: Membership | undefined
}

/** Of a sandbox in a group. */
type Membership = { joint: Joint; address: string }

export type Running = {
  host: Host
  spec: SandboxSpec
  made: Made
  holder: Holder
  launched: Launched
  output: Output
}
