import { randomUUID } from 'node:crypto'
import { DEFAULT_LIMITS } from '../../../src/harbor/limits.ts'
import type { Image, SandboxSpec } from '../../../src/sandboxes/sandbox.ts'

/** Describes a sandbox that runs one command, without a network, mounts or uploads. */
export const plainSpec = (image: Image, command: string[], outputFile: string): SandboxSpec => ({
  id: randomUUID(),
  image,
  baseFilesystem: { kind: 'image' },
  uploads: [],
  command,
  usesExec: false,
  user: null,
  workdir: null,
  env: {},
  mounts: [],
  network: null,
  ports: [],
  limits: { ...DEFAULT_LIMITS, pids: 32, outputBytes: 1000, seconds: 20 },
  input: '',
  outputFile,
})
