import { appendFileSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { Task } from '../harbor/task.ts'
import { newId } from '../platform/ids.ts'
import { killOnAbort } from '../sandboxes/kill-on-abort.ts'
import {
  type Mount,
  type Sandbox,
  type SandboxNetwork,
  type SandboxProvider,
  SandboxUnavailable,
} from '../sandboxes/sandbox.ts'
import type { Bench, TrialRequest } from './bench.ts'
import { openNetwork, withModel } from './network.ts'
import { isProvenOutage } from './outage.ts'

/** The benches of one trial, and all that was started on them. */
export type Workshop = AsyncDisposable & {
  /** Null: of the whole trial. Steps are counted from 0. */
  bench(step: number | null): Promise<Bench>
}

/** Where a trial has its files on this machine, and what its agents see of it. */
type Room = { folder: string; mounts: Mount[] }

type Started = { sandboxes: Set<Sandbox>; groups: SandboxNetwork[]; removals: Promise<void>[]; hasAgentBegun: boolean }

export function openWorkshop(provider: SandboxProvider, request: TrialRequest, { folder, mounts }: Room): Workshop {
  const started: Started = { sandboxes: new Set(), groups: [], removals: [], hasAgentBegun: false }
  return {
    async bench(step) {
      const own = join(folder, step === null ? 'trial' : String(step))
      await mkdir(own)
      return benchOf(provider, request, started, { folder: own, mounts, suffix: step === null ? '' : `-${step + 1}` })
    },
    async [Symbol.asyncDispose]() {
      const removals = [...started.sandboxes].map((sandbox) => sandbox.remove())
      await Promise.allSettled([...started.removals, ...removals])
      await Promise.allSettled(started.groups.map((group) => group.remove()))
    },
  }
}

type Place = Room & { suffix: string }

function benchOf(provider: SandboxProvider, request: TrialRequest, started: Started, place: Place): Bench {
  const { folder, mounts, suffix } = place
  const outputFile = (name: string): string => join(request.outputFolder, `${name}${suffix}.log`)
  return {
    request,
    folder,
    mounts,
    notes: [],
    markAgentBegun() {
      started.hasAgentBegun = true
    },
    async attribute(error) {
      const { harness, signal, outputFolder } = request
      if (!started.hasAgentBegun || harness.isControl) return undefined
      const isOutage = await isProvenOutage(error, provider, outputFolder)
      signal.throwIfAborted()
      return isOutage ? 'outage' : 'agent'
    },
    outputFile,
    prepare: (source, timeoutSec, limits) =>
      withLastLines(request, outputFile('build'), (onLog) =>
        provider.prepare(source, { signal: request.signal, timeoutSec, limits, onLog }),
      ),
    async openGroup() {
      const group = await provider.openNetwork(newId())
      started.groups.push(group)
      return group
    },
    network(declared, phase) {
      const network = openNetwork(declared, {
        unsaid: request.networks?.[phase],
        direct: serviceNames(request.task),
        egress: request.egress,
      })
      return phase === 'agent' && request.model ? withModel(network, request.model.port) : network
    },
    async start(name, spec) {
      request.signal.throwIfAborted()
      const sandbox = await provider.start({ ...spec, id: idFor(name), outputFile: outputFile(name) })
      started.sandboxes.add(sandbox)
      killOnAbort(sandbox, request.signal)
      return sandbox
    },
    removeLater(sandbox) {
      started.sandboxes.delete(sandbox)
      started.removals.push(sandbox.remove())
    },
  }
}

/** What the services of a task call each other. */
const serviceNames = ({ environment, steps }: Task): string[] => {
  const places = steps.map(({ verifier: { place } }) => (place.mode === 'separate' ? place.environment : environment))
  const services = [environment, ...places].flatMap(({ compose }) => compose?.services ?? [])
  return [
    ...new Set(
      services.flatMap(({ name, hostname, aliases }) => [name, ...(hostname === null ? [] : [hostname]), ...aliases]),
    ),
  ]
}

const ID_LENGTH_MAX = 90

/** Unique by its first part; the rest is for people. */
const idFor = (name: string): string => `${newId()}-${name}`.slice(0, ID_LENGTH_MAX)

const LAST_LINES = 20

/** A build that fails says why at its end. */
async function withLastLines<T>(
  { onLog }: TrialRequest,
  file: string,
  build: (onLog: (line: string) => void) => Promise<T>,
): Promise<T> {
  const last: string[] = []
  try {
    return await build((line) => {
      last.push(line)
      if (last.length > LAST_LINES) last.shift()
      appendFileSync(file, `${line}\n`)
      onLog?.(line)
    })
  } catch (error) {
    const said = last.filter((line) => !(error instanceof Error) || !error.message.includes(line.trim()))
    if (!(error instanceof SandboxUnavailable) || said.length === 0) throw error
    throw new SandboxUnavailable(
      `${error.message}\nThe build said last:\n${said.map((line) => `  ${line}`).join('\n')}`,
      { cause: error },
    )
  }
}
