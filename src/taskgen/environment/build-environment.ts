import { languages } from '../../grading/languages/languages.ts'
import type { TreeFacts } from '../../grading/suite.ts'
import { GENERATED_LIMITS } from '../../harbor/limits.ts'
import { type Image, type SandboxProvider, SandboxUnavailable } from '../../sandboxes/sandbox.ts'
import { done, reject, rejectForTiming, type StageDeferral, type StageResult } from '../stage-result.ts'

export type BuildOptions = {
  /** Folder written by `writeEnvironment`. */
  folder: string
  /** Candidates of the same profile wait for the first one and then share its layers. */
  profile: string
  base: string
  /** Timeout of the build. Default: 20 minutes. */
  seconds?: number
  onLog?: (line: string) => void
}

const BUILD_SECONDS = 20 * 60
const BASE_SECONDS = 10 * 60
const RETRY_MS = 10 * 60_000
const LAST_LINES = 30
const DETAIL_MAX = 4000

/**
 * Builds the image of a written environment. A build that fails rejects the recipe. An unavailable base image, provider or
 * package server is not the fault of the recipe: the build is deferred, or SandboxUnavailable is thrown.
 */
export async function buildEnvironment(
  provider: SandboxProvider,
  input: BuildOptions,
  signal: AbortSignal,
): Promise<StageResult<Image>> {
  const missing = await requireBase(provider, input, signal)
  if (missing) return missing
  const startedAt = performance.now()
  const first = await runAfterFirst(provider, input.profile, () => build(provider, input, signal))
  const isTimedOut = performance.now() - startedAt >= buildTimeoutSec(input) * 1000
  if (first.kind === 'rejected' && isTimedOut) return rejectForTiming(first.reason, first.detail)
  // Retried once, because package servers fail temporarily. A broken recipe fails again.
  return first.kind !== 'rejected' ? first : build(provider, input, signal)
}

const buildTimeoutSec = ({ seconds = BUILD_SECONDS }: BuildOptions): number => seconds

async function requireBase(provider: SandboxProvider, { base, onLog = () => {} }: BuildOptions, signal: AbortSignal) {
  try {
    const options = { signal, timeoutSec: BASE_SECONDS, onLog }
    await provider.prepare({ kind: 'prebuilt', name: base, folder: null, workdir: null }, options)
    return undefined
  } catch (error) {
    if (!(error instanceof SandboxUnavailable)) throw error
    await provider.selfTest()
    return deferBuild('config', error.message)
  }
}

const deferBuild = (reason: StageDeferral['reason'], detail: string): StageDeferral => ({
  kind: 'deferred',
  reason,
  detail: detail.slice(-DETAIL_MAX),
  retryAfterMs: RETRY_MS,
})

/** Network errors, reported by programs or by the build proxy. */
const UNREACHABLE = [
  /Temporary failure (?:in name resolution|resolving)|Could not resolve|EAI_AGAIN|dial tcp: lookup/i,
  /Network is unreachable|TLS handshake timeout/i,
  /50[234] +(?:Bad Gateway|Service Unavailable|Gateway Time)|tunnel failed, response 50[234]|: Bad Gateway/i,
]

async function build(provider: SandboxProvider, input: BuildOptions, signal: AbortSignal): Promise<StageResult<Image>> {
  const last: string[] = []
  const onLog = (line: string): void => {
    last.push(line.slice(0, 1000))
    if (last.length > LAST_LINES) last.shift()
    input.onLog?.(line)
  }
  try {
    const source = {
      kind: 'dockerfile',
      context: input.folder,
      dockerfile: 'Dockerfile',
      target: null,
      args: {},
    } as const
    return done(
      await provider.prepare(source, { signal, timeoutSec: buildTimeoutSec(input), limits: GENERATED_LIMITS, onLog }),
    )
  } catch (error) {
    if (!(error instanceof SandboxUnavailable)) throw error
    // Throws if the engine is unavailable, so that the recipe is not blamed.
    await provider.selfTest()
    const output = [error.message, ...last.filter((line) => !error.message.includes(line.trim()))].join('\n')
    if (UNREACHABLE.some((pattern) => pattern.test(output))) return deferBuild('provider', output)
    return reject('env_build_failed', output.slice(-DETAIL_MAX))
  }
}

/** Running first builds of profiles, by provider. */
const FIRST_BUILDS = new WeakMap<SandboxProvider, Map<string, Promise<unknown>>>()

/** Runs the first call of a profile alone, and the others concurrently after it has ended. */
async function runAfterFirst<T>(provider: SandboxProvider, profile: string, work: () => Promise<T>): Promise<T> {
  const known = FIRST_BUILDS.get(provider) ?? new Map<string, Promise<unknown>>()
  FIRST_BUILDS.set(provider, known)
  const firstBuild = known.get(profile)
  if (firstBuild) {
    await firstBuild.catch(() => {})
    return work()
  }
  const running = work()
  known.set(profile, running)
  try {
    return await running
  } finally {
    known.delete(profile)
  }
}

const PACKAGES_MAX = 200

/**
 * Lists the published names of the repository as `language:name`. An installed copy in an image may contain the fix.
 */
export function listOwnPackages(tree: TreeFacts): string[] {
  const names = languages.flatMap(({ id, packageNames }) =>
    packageNames(tree)
      .filter((name) => name !== '')
      .map((name) => `${id}:${name}`),
  )
  return [...new Set(names)].slice(0, PACKAGES_MAX)
}
