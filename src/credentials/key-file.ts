import { randomBytes } from 'node:crypto'
import type { Stats } from 'node:fs'
import { type FileHandle, link, mkdir, open, rename, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { syncFolder } from '../platform/data-folder.ts'
import { ignoreCode } from '../platform/errors.ts'
import { type MasterKey, toMasterKey } from './seal.ts'

const FILE_HEADING =
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
  await file.writeFile(`${[FILE_HEADING, ...keys.map(({ bytes }) => bytes.toString('base64'))].join('\n')}\n`)
  await file.sync()
  return draft
}

/** Thrown when the master key is missing, wrong or not protected. The message contains the fix and never a key. */
export class MasterKeyRefused extends Error {
  override name = 'MasterKeyRefused'
}

const KEY_BYTES = 32
/** The two forms of 32 bytes as text. */
const HEX = /^[0-9a-f]{64}$/i
const BASE64 = /^[A-Za-z0-9+/_-]{43}=?$/
/** Minimum number of different bytes. A random key has far more; a key such as 32 zeros is refused. */
const DISTINCT_BYTES_MIN = 8

/** Parses one key per text. `sourceName` is used in errors. */
export function parseKeys(texts: string[], sourceName: string): MasterKey[] {
  const keys = texts.map((text, index) => toMasterKey(parseKey(text.trim(), `Key ${index + 1} in ${sourceName}`)))
  if (keys.length === 0) throw new MasterKeyRefused(`${sourceName} contains no key.`)
  return [...new Map(keys.map((key) => [key.id, key])).values()]
}

function parseKey(text: string, keyName: string): Buffer {
  const bytes = HEX.test(text) ? Buffer.from(text, 'hex') : Buffer.from(BASE64.test(text) ? text : '', 'base64')
  if (bytes.length !== KEY_BYTES) {
    throw new MasterKeyRefused(
      `${keyName} is not 32 bytes as 64 hex digits or base64. Create one with: openssl rand -hex 32`,
    )
  }
  if (new Set(bytes).size < DISTINCT_BYTES_MIN) {
    throw new MasterKeyRefused(`${keyName} is not random. Create one with: openssl rand -hex 32`)
  }
  return bytes
}

/** Source of the master keys: the operator's variable, or the key file in the data folder. */
export type KeySource = { kind: 'variable'; keys: MasterKey[] } | { kind: 'file'; path: string }

export type KeyLocation = { dataFolder: string; secretKey?: string | undefined }

const KEY_VARIABLE = 'ASSAY_SECRET_KEY'

export const resolveKeySource = ({ dataFolder, secretKey }: KeyLocation): KeySource =>
  secretKey === undefined
    ? { kind: 'file', path: join(dataFolder, 'secret.key') }
    : { kind: 'variable', keys: parseKeys(secretKey.split(','), KEY_VARIABLE) }

/** Reads the keys. New secrets are sealed with the first one. Returns none if there is no key file yet. */
export const readKeys = async (source: KeySource): Promise<MasterKey[]> =>
  source.kind === 'variable' ? source.keys : ((await readKeyFile(source.path)) ?? [])

export const describeSource = (source: KeySource): string => (source.kind === 'variable' ? KEY_VARIABLE : source.path)
