import { cp, mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { PublishedPackage } from '../../grading/languages/language.ts'
import { languages } from '../../grading/languages/languages.ts'
import type { EnvRecipe } from '../../grading/languages/recipe.ts'
import type { TreeFacts } from '../../grading/suite.ts'
import { GENERATED_LIMITS } from '../../harbor/limits.ts'
import { type Image, ImageTimeout, type SandboxProvider, SandboxUnavailable } from '../../sandboxes/sandbox.ts'
import { done, reject, rejectForTiming, type StageDeferral, type StageResult } from '../stage-result.ts'
import { MANIFESTS, renderSharedDockerfiles } from './dockerfile.ts'

type BuildOptions = {
  /** Folder written by `writeEnvironment`. */
  folder: string
  recipe: EnvRecipe
  /** Timeout of each build. Default: 20 minutes. */
  timeoutSec?: number
  onLog?: (line: string) => void
}

const BUILD_TIMEOUT_SEC = 20 * 60
const BASE_TIMEOUT_SEC = 10 * 60
const RETRY_MS = 10 * 60_000
/** Bounds of the end of the build log that a rejection quotes. */
const LAST_LINES_MAX = 30
const LINE_LENGTH_MAX = 1000
const DETAIL_LENGTH_MAX = 4000

/**
 * Builds the image of a written environment. Its lower layers are built first, as two images that candidates share: the
 * tools, and the tools with the dependencies. Concurrent candidates build each image once. A build that fails twice, or
 * that exceeds its timeout, rejects the recipe. An unavailable base image, provider or package server is not the fault of
 * the recipe: the build is deferred, or SandboxUnavailable is thrown.
 */
export async function buildEnvironment(
  provider: SandboxProvider,
  input: BuildOptions,
  signal: AbortSignal,
): Promise<StageResult<Image>> {
  const deferral = await deferIfBaseMissing(provider, input, signal)
  if (deferral) return deferral
  const first = await buildLayers(provider, input, signal)
  if (first.kind !== 'rejected' || first.isLoadSensitive) return first
  // Retried once, because package servers fail temporarily. A broken recipe fails again.
  return buildLayers(provider, input, signal)
}

/** Returns a deferral if the base image cannot be prepared. Throws if the provider itself does not work. */
async function deferIfBaseMissing(
  provider: SandboxProvider,
  { recipe, onLog = () => {} }: BuildOptions,
  signal: AbortSignal,
): Promise<StageDeferral | undefined> {
  try {
    const options = { signal, timeoutSec: BASE_TIMEOUT_SEC, onLog }
    await provider.prepare({ kind: 'prebuilt', name: recipe.base, folder: null, workdir: null }, options)
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
  detail: detail.slice(-DETAIL_LENGTH_MAX),
  retryAfterMs: RETRY_MS,
})

/** Network errors, reported by programs or by the build proxy. */
const UNREACHABLE = [
  /Temporary failure (?:in name resolution|resolving)|Could not resolve|EAI_AGAIN|dial tcp: lookup/i,
  /Network is unreachable|TLS handshake timeout/i,
  /50[234] +(?:Bad Gateway|Service Unavailable|Gateway Time)|tunnel failed, response 50[234]|: Bad Gateway/i,
]

async function buildLayers(
  provider: SandboxProvider,
  input: BuildOptions,
  signal: AbortSignal,
): Promise<StageResult<Image>> {
  for (const folder of await writeSharedContexts(input)) {
    const shared = await build(provider, { ...input, folder, isShared: true }, signal)
    if (shared.kind !== 'done') return shared
  }
  return build(provider, { ...input, isShared: false }, signal)
}

/** Writes the build contexts of the shared images beside the folder of the environment, which becomes part of the task. */
async function writeSharedContexts({ folder, recipe }: BuildOptions): Promise<string[]> {
  const { tools, dependencies } = renderSharedDockerfiles(recipe)
  const hasDependencies = tools !== dependencies
  const [toolsFolder, dependenciesFolder] = [`${folder}-tools`, `${folder}-dependencies`]
  await mkdir(toolsFolder, { recursive: true })
  await writeFile(join(toolsFolder, 'Dockerfile'), tools)
  if (!hasDependencies) return [toolsFolder]
  await mkdir(dependenciesFolder, { recursive: true })
  await writeFile(join(dependenciesFolder, 'Dockerfile'), dependencies)
  if (recipe.manifests.length > 0)
    await cp(join(folder, MANIFESTS), join(dependenciesFolder, MANIFESTS), { recursive: true })
  return [toolsFolder, dependenciesFolder]
}

async function build(
  provider: SandboxProvider,
  input: BuildOptions & { isShared: boolean },
  signal: AbortSignal,
): Promise<StageResult<Image>> {
  const lastLines: string[] = []
  const onLog = (line: string): void => {
    lastLines.push(line.slice(0, LINE_LENGTH_MAX))
    if (lastLines.length > LAST_LINES_MAX) lastLines.shift()
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
    const { isShared, timeoutSec = BUILD_TIMEOUT_SEC } = input
    const options = { signal, timeoutSec, limits: GENERATED_LIMITS, isShared, onLog }
    return done(await provider.prepare(source, options))
  } catch (error) {
    if (!(error instanceof SandboxUnavailable)) throw error
    // Throws if the engine is unavailable, so that the recipe is not blamed.
    await provider.selfTest()
    const output = [error.message, ...lastLines.filter((line) => !error.message.includes(line.trim()))].join('\n')
    if (UNREACHABLE.some((pattern) => pattern.test(output))) return deferBuild('provider', output)
    if (error instanceof ImageTimeout)
      return rejectForTiming('env_build_failed', quoteTimeout(error.message, lastLines))
    return reject('env_build_failed', output.slice(-DETAIL_LENGTH_MAX))
  }
}

/** Returns the message of a timeout and the end of the log. */
const quoteTimeout = (message: string, lines: readonly string[]): string =>
  `${message}\n${lines.join('\n').slice(message.length - DETAIL_LENGTH_MAX)}`

const PACKAGES_MAX = 200

/**
 * Lists the packages that the repository publishes, with names such as `python:requests`. The leak scan looks for
 * installed copies of them, because a published package may contain the fix.
 */
export function listOwnPackages(tree: TreeFacts): PublishedPackage[] {
  const packages = languages.flatMap(({ id, publishedPackages }) =>
    publishedPackages(tree)
      .filter(({ name }) => name !== '')
      .map(({ name, ...rest }) => ({ name: `${id}:${name}`, ...rest })),
  )
  return [...new Map(packages.map((each) => [each.name, each])).values()].slice(0, PACKAGES_MAX)
}
