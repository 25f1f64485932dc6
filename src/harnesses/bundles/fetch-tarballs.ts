import { type ChildProcess, spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { createReadStream } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { pipeline } from 'node:stream/promises'
import { HarnessUnfit } from '../harness-unfit.ts'
import type { Tarball } from './bundle.ts'

type Fetching = { folder: string; signal: AbortSignal; onFetched: (done: number) => void }

/** One npm brings its archives one after another: several of them at once, with some archives each. */
const BATCH = 8
const AT_ONCE = 4

/**
 * Brings archives into a folder, by npm: with the settings, the registry and the cache of whoever runs us. Nothing in them
 * is run. Answers the file of each integrity; one that is not what the lock says is refused.
 */
export async function fetchTarballs(tarballs: Tarball[], fetching: Fetching): Promise<Map<string, string>> {
  const { folder, signal, onFetched } = fetching
  const specs = [...new Set(tarballs.map(({ name, version }) => `${name}@${version}`))]
  await inBatches(specs, onFetched, (batch) => npmPack(batch, folder, signal))
  const files = await byIntegrity(folder)
  const wrong = tarballs.find(({ integrity }) => !files.has(integrity))
  if (!wrong) return files
  throw new HarnessUnfit(
    `The registry's ${wrong.name}@${wrong.version} is not the one of the lock. It was not installed.`,
  )
}

async function inBatches(
  specs: string[],
  onFetched: (done: number) => void,
  fetch: (batch: string[]) => Promise<void>,
) {
  let [begun, done] = [0, 0]
  onFetched(done)
  const worker = async (): Promise<void> => {
    while (begun < specs.length) {
      const batch = specs.slice(begun, begun + BATCH)
      begun += batch.length
      await fetch(batch)
      done += batch.length
      onFetched(done)
    }
  }
  const ends = await Promise.allSettled(Array.from({ length: AT_ONCE }, worker))
  const failed = ends.find((end) => end.status === 'rejected')
  if (failed) throw failed.reason
}

async function npmPack(specs: string[], folder: string, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted()
  const words = ['pack', '--silent', '--ignore-scripts', '--loglevel', 'error', ...specs]
  const child = spawn('npm', words, { cwd: folder, stdio: ['ignore', 'ignore', 'pipe'], signal, killSignal: 'SIGKILL' })
  const [errors, code] = await Promise.all([text(child.stderr), codeOf(child)])
  signal.throwIfAborted()
  if (code === 127) throw new HarnessUnfit('Programs are installed by npm, which is not on the search path.')
  if (code !== 0) throw new HarnessUnfit(`npm could not get ${specs.join(', ')}. ${gistOf(errors)}`)
}

const codeOf = (child: ChildProcess): Promise<number | null> =>
  once(child, 'close').then(
    ([code]): number | null => code,
    (error: NodeJS.ErrnoException) => (error.code === 'ENOENT' ? 127 : 1),
  )

const GIST_LENGTH_MAX = 400

const gistOf = (errors: string): string =>
  errors
    .split('\n')
    .flatMap((line) => /^npm error (?!A complete log|code |syscall |errno | +at )(.+)/.exec(line)?.[1] ?? [])
    .join(' ')
    .slice(0, GIST_LENGTH_MAX)

async function byIntegrity(folder: string): Promise<Map<string, string>> {
  const files = new Map<string, string>()
  for (const name of await readdir(folder)) {
    const hash = createHash('sha512')
    await pipeline(createReadStream(join(folder, name)), hash)
    files.set(`sha512-${hash.digest('base64')}`, join(folder, name))
  }
  return files
}
