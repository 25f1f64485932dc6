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

type FetchOptions = { folder: string; signal: AbortSignal; onFetched: (done: number) => void }

/** One npm process fetches its archives sequentially, so several run in parallel, with a few archives each. */
const BATCH_SIZE = 8
const PROCESSES_MAX = 4

/**
 * Fetches archives with npm, using the npm configuration (registry, cache) of the current user. Executes no scripts. Returns
 * the file of each integrity hash. Throws HarnessUnfit if an archive does not match the lock.
 */
export async function fetchTarballs(tarballs: Tarball[], fetching: FetchOptions): Promise<Map<string, string>> {
  const { folder, signal, onFetched } = fetching
  const specs = [...new Set(tarballs.map(({ name, version }) => `${name}@${version}`))]
  await runInBatches(specs, onFetched, (batch) => npmPack(batch, folder, signal))
  const files = await indexByIntegrity(folder)
  const wrong = tarballs.find(({ integrity }) => !files.has(integrity))
  if (!wrong) return files
  throw new HarnessUnfit(
    `${wrong.name}@${wrong.version} from the registry does not match the lock file and was not installed.`,
  )
}

async function runInBatches(
  specs: string[],
  onFetched: (done: number) => void,
  fetch: (batch: string[]) => Promise<void>,
) {
  let [begun, done] = [0, 0]
  onFetched(done)
  const worker = async (): Promise<void> => {
    while (begun < specs.length) {
      const batch = specs.slice(begun, begun + BATCH_SIZE)
      begun += batch.length
      await fetch(batch)
      done += batch.length
      onFetched(done)
    }
  }
  const ends = await Promise.allSettled(Array.from({ length: PROCESSES_MAX }, worker))
  const failed = ends.find((end) => end.status === 'rejected')
  if (failed) throw failed.reason
}

async function npmPack(specs: string[], folder: string, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted()
  const words = ['pack', '--silent', '--ignore-scripts', '--loglevel', 'error', ...specs]
  const child = spawn('npm', words, { cwd: folder, stdio: ['ignore', 'ignore', 'pipe'], signal, killSignal: 'SIGKILL' })
  const [errors, code] = await Promise.all([text(child.stderr), exitCodeOf(child)])
  signal.throwIfAborted()
  if (code === 127) throw new HarnessUnfit('npm was not found on the PATH. Install npm to install harnesses.')
  if (code !== 0) throw new HarnessUnfit(`npm could not fetch ${specs.join(', ')}. ${summarizeErrors(errors)}`)
}

const exitCodeOf = (child: ChildProcess): Promise<number | null> =>
  once(child, 'close').then(
    ([code]): number | null => code,
    (error: NodeJS.ErrnoException) => (error.code === 'ENOENT' ? 127 : 1),
  )

const GIST_LENGTH_MAX = 400

const summarizeErrors = (errors: string): string =>
  errors
    .split('\n')
    .flatMap((line) => /^npm error (?!A complete log|code |syscall |errno | +at )(.+)/.exec(line)?.[1] ?? [])
    .join(' ')
    .slice(0, GIST_LENGTH_MAX)

async function indexByIntegrity(folder: string): Promise<Map<string, string>> {
  const files = new Map<string, string>()
  for (const name of await readdir(folder)) {
    const hash = createHash('sha512')
    await pipeline(createReadStream(join(folder, name)), hash)
    files.set(`sha512-${hash.digest('base64')}`, join(folder, name))
  }
  return files
}
