import { mkdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { dirname } from 'node:path'
import { z } from 'zod'
import { Difficulty } from '../schema.ts'
import { REASON_CODES, SCREEN_VERSION } from './reasons.ts'
import { type DiffVerdict, Features } from './screen-diff.ts'

/** Cached verdicts, by tree pair. */
export type VerdictStore = Pick<Map<string, DiffVerdict>, 'get' | 'set'>

/** Verdicts that are cached in a file. The file can be deleted at any time; the verdicts are then computed again. */
export type VerdictCache = VerdictStore & { save(): Promise<void> }

const ENTRIES_MAX = 100_000
const BYTES_MAX = 256 * 1024 * 1024

const Verdict = z.union([
  z.object({ kind: z.literal('candidate'), difficulty: Difficulty, features: Features, fingerprint: z.string() }),
  z.object({ kind: z.literal('rejected'), reason: z.enum(REASON_CODES), evidence: z.string() }),
])
const Line = z.tuple([z.string(), Verdict])

export async function openVerdictCache(file: string): Promise<VerdictCache> {
  const loaded = await loadVerdicts(file)
  const used = new Map<string, DiffVerdict>()
  let isChanged = false
  return {
    get: (pair) => used.get(pair) ?? loaded.get(pair),
    set(pair, verdict) {
      isChanged ||= !loaded.has(pair)
      used.set(pair, verdict)
      return used
    },
    // A large cache is reduced to the verdicts that this scan used.
    async save() {
      if (!isChanged) return
      await saveVerdicts(file, loaded.size < ENTRIES_MAX ? new Map([...loaded, ...used]) : used)
    },
  }
}

const HEADER = JSON.stringify({ screen: SCREEN_VERSION })

/** Loads the cache. A file that is missing, too large or of another version counts as empty; damaged lines are skipped. */
async function loadVerdicts(file: string): Promise<Map<string, DiffVerdict>> {
  const bytes = await stat(file).then(
    ({ size }) => size,
    () => undefined,
  )
  if (bytes === undefined || bytes > BYTES_MAX) return new Map()
  const [head, ...lines] = (await readFile(file, 'utf8')).split('\n')
  return new Map(head === HEADER ? lines.flatMap(parseEntry) : [])
}

function parseEntry(line: string): [string, DiffVerdict][] {
  try {
    return [Line.parse(JSON.parse(line))]
  } catch {
    return []
  }
}

/** Writes atomically: concurrent writers leave one complete file. */
async function saveVerdicts(file: string, verdicts: ReadonlyMap<string, DiffVerdict>): Promise<void> {
  const temporaryFile = `${file}.${process.pid}`
  const lines = [...verdicts].map((entry) => JSON.stringify(entry))
  await mkdir(dirname(file), { recursive: true, mode: 0o700 })
  try {
    await writeFile(temporaryFile, `${[HEADER, ...lines].join('\n')}\n`, { mode: 0o600 })
    await rename(temporaryFile, file)
  } finally {
    await rm(temporaryFile, { force: true })
  }
}
