import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { z } from 'zod'
import type { PublishedPackage } from '../../grading/languages/language.ts'
import { languages } from '../../grading/languages/languages.ts'
import { type HiddenTests, REPOSITORY_FOLDER } from '../../grading/suite.ts'
import { DEFAULT_LIMITS, GENERATED_LIMITS } from '../../harbor/limits.ts'
import { newId } from '../../platform/ids.ts'
import { type Image, killOnAbort, type SandboxProvider, type SandboxSpec } from '../../sandboxes/sandbox.ts'
import { done, reject, type StageResult } from '../stage-result.ts'

/** Content that must not occur in the image, and the tree that its repository must have. */
type LeakScanInput = { source: string; hidden: HiddenTests; ownPackages: readonly PublishedPackage[]; baseTree: string }

const SCAN_PROGRAM = readFileSync(join(import.meta.dirname, 'scan-image.py'), 'utf8')

const IMAGE_KB_MAX = 6 * 1024 * 1024
const TIMEOUT_SEC = 900
const LIMITS = {
  ...DEFAULT_LIMITS,
  ...GENERATED_LIMITS,
  diskMb: 1024,
  outputBytes: 1024 * 1024,
  seconds: TIMEOUT_SEC,
}

const Report = z.object({
  found: z.array(z.object({ kind: z.enum(['dirty', 'history', 'file', 'line', 'package']), detail: z.string() })),
  usedKb: z.number(),
})

/**
 * Searches an image for the solution and the hidden tests, and checks that its build left the tree clean. Runs in a
 * sandbox without a network.
 */
export async function scanImage(
  provider: SandboxProvider,
  image: Image,
  { source, hidden, ownPackages, baseTree }: LeakScanInput,
  signal: AbortSignal,
): Promise<StageResult<null>> {
  const packages = listPublishedCopies(ownPackages)
  const input = { repository: REPOSITORY_FOLDER, packages, tree: baseTree, ...collectLeakMarkers(source, hidden) }
  const output = await runScan(provider, image, JSON.stringify(input), signal)
  const report = readReport(output)
  if (!report) return reject('env_build_failed', `The image could not be scanned: ${output.slice(-2000)}`)
  const dirty = report.found.filter(({ kind }) => kind === 'dirty')
  const leaks = report.found.filter(({ kind }) => kind !== 'dirty')
  if (leaks.length > 0) return reject('leak_in_image', joinDetails(leaks))
  if (dirty.length > 0) return reject('env_build_failed', `The build changes the tree:\n${joinDetails(dirty)}`)
  if (report.usedKb > IMAGE_KB_MAX)
    return reject('env_build_failed', `The image has ${report.usedKb} KiB. The limit is ${IMAGE_KB_MAX}.`)
  return done(null)
}

/** A package with the pattern of the folders that hold a published copy. Copies before `version` are not leaks. */
type PackageCopy = { name: string; copy: string; version: string | null; isLocked: boolean }

/** Returns for each package, such as `python:requests`, what the scan looks for. */
export const listPublishedCopies = (packages: readonly PublishedPackage[]): PackageCopy[] =>
  packages.flatMap(({ name, version, isLocked = false }) => {
    const end = name.indexOf(':')
    const language = languages.find(({ id }) => id === name.slice(0, end))
    if (!language?.publishedCopy) return []
    return [{ name, copy: language.publishedCopy(name.slice(end + 1)), version: version ?? null, isLocked }]
  })

const SHOWN_MAX = 10

const joinDetails = (findings: readonly { detail: string }[]): string =>
  findings
    .slice(0, SHOWN_MAX)
    .map(({ detail }) => detail)
    .join('\n')

function readReport(output: string): z.infer<typeof Report> | undefined {
  try {
    return Report.parse(JSON.parse(output))
  } catch {
    return undefined
  }
}

async function runScan(provider: SandboxProvider, image: Image, input: string, signal: AbortSignal): Promise<string> {
  signal.throwIfAborted()
  const folder = await mkdtemp(join(tmpdir(), 'assay-scan-'))
  const outputFile = join(folder, 'output')
  try {
    const sandbox = await provider.start({ ...SANDBOX_DEFAULTS, id: `${newId()}-scan`, image, input, outputFile })
    killOnAbort(sandbox, signal)
    try {
      await sandbox.exited
      signal.throwIfAborted()
      return await readFile(outputFile, 'utf8')
    } finally {
      await sandbox.remove()
    }
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

const SANDBOX_DEFAULTS: Omit<SandboxSpec, 'id' | 'image' | 'input' | 'outputFile'> = {
  baseFilesystem: { kind: 'image' },
  uploads: [],
  command: ['/usr/bin/python3', '-I', '-B', '-c', SCAN_PROGRAM],
  usesExec: false,
  user: 0,
  workdir: '/',
  env: {},
  mounts: [],
  network: null,
  ports: [],
  limits: LIMITS,
}

/** Lines and blobs by which the scan recognises the solution and the hidden tests. */
type LeakMarkers = { lines: string[]; blobs: string[] }

const LINE_LENGTH_MIN = 40
const LINES_MAX = 5000
/** Imports, comments and licence headers occur everywhere. */
const COMMON_LINE =
  /^(?:import\b|from\b|use\b|using\b|package\b|#|\/\/|\/?\*|--|@|require\b|(?:const|let|var)\b.*\brequire\()/
/**
 * Blob id of a file after the change, in an `index` line of a diff. Zeros stand for a deleted file. The lookbehind is the start
 * of a line; `^` would also match after a carriage return.
 */
const NEW_BLOB_ID = /(?<![^\n])index [0-9a-f]+\.\.(?!0+(?:\s|$))([0-9a-f]{40,64})/g
const SHA256_LENGTH = 64

/**
 * Collects long lines that the change or its tests add, and the blob ids of the changed files. The scan ignores lines and
 * blobs that the base contains too.
 */
export function collectLeakMarkers(source: string, hidden: HiddenTests): LeakMarkers {
  const added = source.split('\n').flatMap((line) => (/^\+(?!\+\+ )/.test(line) ? [line.slice(1)] : []))
  const tests = hidden.files.flatMap(({ content }) => content.split('\n'))
  const lines = [...added, ...tests].map((line) => line.trim()).filter(isDistinctive)
  const changed = [...source.matchAll(NEW_BLOB_ID)].map(([, id = '']) => id)
  const format = changed[0]?.length === SHA256_LENGTH ? 'sha256' : 'sha1'
  const blobs = [...changed, ...hidden.files.map(({ content }) => computeBlobId(content, format))]
  return { lines: [...new Set(lines)].slice(0, LINES_MAX), blobs: [...new Set(blobs)] }
}

const isDistinctive = (line: string): boolean => line.length >= LINE_LENGTH_MIN && !COMMON_LINE.test(line)

const computeBlobId = (content: string, format: string): string =>
  createHash(format).update(`blob ${content.length}\0`).update(content, 'latin1').digest('hex')
