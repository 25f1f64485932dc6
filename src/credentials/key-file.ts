import { randomBytes } from 'node:crypto'
import type { Stats } from 'node:fs'
import { type FileHandle, link, mkdir, open, rename, rm } from 'node:fs/promises'
import { dirname } from 'node:path'
import { keyText, MasterKeyRefused, parseKeys } from './key-text.ts'
import type { MasterKey } from './seal.ts'

const HEADING =
  '# Assay master keys, the newest first. They open every stored credential: keep a copy, and keep it secret.'
/** Permission bits of group and others. */
const GROUP_AND_OTHERS = 0o077

/** Reads the keys of the file. Returns undefined without a file; refuses a file that others can read or write. */
export async function readKeyFile(path: string): Promise<MasterKey[] | undefined> {
  const file = await open(path, 'r').catch(ignoreCode('ENOENT'))
  if (!file) return undefined
  await using _ = file
  requirePrivate(path, await file.stat())
  const lines = (await file.readFile('utf8')).split('\n').map((line) => line.trim())
  return parseKeys(
    lines.filter((line) => line !== '' && !line.startsWith('#')),
    path,
  )
}

function requirePrivate(path: string, stats: Stats): void {
  if (!stats.isFile()) throw new MasterKeyRefused(`${path} is not a file.`)
  const self = process.geteuid?.()
  if (self === undefined) return // Windows has no numeric owners and modes.
  if (stats.uid !== self) {
    throw new MasterKeyRefused(
      `${path} belongs to user ${stats.uid} but Assay runs as user ${self}. Start Assay as the owner of the file.`,
    )
  }
  if ((stats.mode & GROUP_AND_OTHERS) !== 0) {
    throw new MasterKeyRefused(`${path} can be read or written by others. Restrict it with: chmod 600 ${path}`)
  }
}

/** Creates the file unless it exists. Of two concurrent calls the first wins. */
export async function createKeyFile(path: string, key: MasterKey): Promise<void> {
  await mkdir(dirname(path), { recursive: true, mode: 0o700 })
  const draft = await writeDraft(path, [key])
  // A link, unlike a rename, never replaces a file.
  await link(draft, path).catch(ignoreCode('EEXIST'))
  await rm(draft)
  await syncFolder(dirname(path))
}

/** Replaces the file atomically: even after a power cut it contains all old keys or all new ones. */
export async function replaceKeyFile(path: string, keys: MasterKey[]): Promise<void> {
  await rename(await writeDraft(path, keys), path)
  await syncFolder(dirname(path))
}

async function writeDraft(path: string, keys: MasterKey[]): Promise<string> {
  const draft = `${path}.${randomBytes(4).toString('hex')}`
  await using file: FileHandle = await open(draft, 'wx', 0o600)
  await file.writeFile(`${[HEADING, ...keys.map(keyText)].join('\n')}\n`)
  await file.sync()
  return draft
}

/** Syncs a folder, so that a new file in it survives a power cut. Not available on Windows. */
async function syncFolder(path: string): Promise<void> {
  if (process.platform === 'win32') return
  await using folder = await open(path, 'r')
  await folder.sync()
}

/** Returns a handler for `.catch` that ignores one error code and rethrows other errors. */
const ignoreCode =
  (code: string) =>
  (error: unknown): undefined => {
    if (error instanceof Error && 'code' in error && error.code === code) return undefined
    throw error
  }
