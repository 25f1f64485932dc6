import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { readdir, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import type { Log } from '../platform/log.ts'

const ROOT = join(import.meta.dirname, '../..')

export const BUILD_FOLDER = join(ROOT, 'web/app/dist')
const BUILDER = join(ROOT, 'scripts/build-app.ts')
/** Files and folders that the build depends on. */
const SOURCES = ['web/app', 'web/components', 'web/assets', 'package-lock.json', 'scripts/build-app.ts']
const ENTRY = 'index.html'

/** Returns true if the app is missing or older than one of its sources. */
export async function isBuildStale(): Promise<boolean> {
  const built = await stat(join(BUILD_FOLDER, ENTRY)).catch(() => undefined)
  if (!built) return true
  const times = await Promise.all(SOURCES.map((source) => readNewestTime(join(ROOT, source))))
  return Math.max(...times) > built.mtimeMs
}

async function readNewestTime(path: string): Promise<number> {
  const stats = await stat(path).catch(() => undefined)
  if (!stats) return 0
  if (!stats.isDirectory()) return stats.mtimeMs
  // The time of a folder itself changes when a build is put into it.
  const names = (await readdir(path)).filter((name) => !name.startsWith('dist'))
  return Math.max(0, ...(await Promise.all(names.map((name) => readNewestTime(join(path, name))))))
}

/**
 * Builds the app in another process if it is stale, so that the service starts without waiting. Returns a function that
 * stops a running build.
 */
export function refreshBuild(log: Log): () => Promise<void> {
  const abort = new AbortController()
  if (existsSync(BUILDER))
    runBuilder(abort.signal).catch((error: unknown) => {
      if (!abort.signal.aborted) log.warn({ error }, 'the workspace app could not be built; run npm run build')
    })
  return async () => abort.abort()
}

async function runBuilder(signal: AbortSignal): Promise<void> {
  if (!(await isBuildStale()) || signal.aborted) return
  const child = spawn(process.execPath, [BUILDER], { stdio: ['ignore', 'ignore', 'pipe'], signal })
  const ended = new Promise<number | null>((resolve, reject) => child.once('error', reject).once('close', resolve))
  const [errors, code] = await Promise.all([text(child.stderr), ended])
  if (code !== 0) throw new Error(errors.slice(0, 2000))
}

const MEDIA_TYPES: Record<string, string> = {
  html: 'text/html; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
  css: 'text/css; charset=utf-8',
  svg: 'image/svg+xml',
  woff2: 'font/woff2',
}
const ASSET_NAME = /^[\w-]+(?:\.[\w-]+)*\.(js|css|svg|woff2)$/
const SUFFIXES = { br: '.br', gzip: '.gz', identity: '' }

type BuildEncoding = keyof typeof SUFFIXES
export type BuiltFile = { body: Uint8Array<ArrayBuffer>; type: string; encoding: BuildEncoding }

/** Reads the page of the app. Undefined if the app is not built. */
export const findPage = (encoding: BuildEncoding, folder: string): Promise<BuiltFile | undefined> =>
  findFile(folder, ENTRY, encoding)

/** Reads an asset by its name. Undefined for names that no asset can have. */
export async function findAsset(name: string, encoding: BuildEncoding, folder: string): Promise<BuiltFile | undefined> {
  return ASSET_NAME.test(name) ? findFile(join(folder, 'assets'), name, encoding) : undefined
}

/** Reads a file as compressed by the build, or uncompressed if the build did not compress it. */
async function findFile(folder: string, name: string, encoding: BuildEncoding): Promise<BuiltFile | undefined> {
  const type = MEDIA_TYPES[name.slice(name.lastIndexOf('.') + 1)] ?? 'application/octet-stream'
  const read = (suffix: string) => readFile(join(folder, `${name}${suffix}`)).catch(() => undefined)
  const encoded = encoding === 'identity' ? undefined : await read(SUFFIXES[encoding])
  if (encoded) return { body: new Uint8Array(encoded), type, encoding }
  const plain = await read('')
  return plain && { body: new Uint8Array(plain), type, encoding: 'identity' }
}
