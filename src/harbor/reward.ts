import { constants } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { join } from 'node:path'
import { codeOf, hasCode, parseOrUndefined } from '../platform/errors.ts'
import { UNTRUSTED_FILE_FLAGS } from './folder-source.ts'
import { REWARD_BYTES_MAX } from './limits.ts'
import { decodeUtf8 } from './source.ts'

export type RewardResult =
  /** The decisive reward is the one called `reward`, or the only one. Without either, the task is not passed. */
  | { kind: 'reward'; passed: boolean; reward: number | null; rewards: Record<string, number> }
  | { kind: 'missing' }
  | { kind: 'refused'; file: string; reason: RewardRefusal; message: string }

type RewardRefusal =
  | 'not_a_file'
  | 'linked'
  | 'unreadable'
  | 'too_large'
  | 'empty'
  | 'not_utf8'
  | 'not_a_number'
  | 'not_rewards'
  | 'out_of_range'
  | 'files_disagree'

// File names of Harbor, in its order of precedence.
const JSON_FILE = 'reward.json'
const TEXT_FILE = 'reward.txt'

/**
 * Reads the reward from the verifier's folder after all processes have ended. The files may come from the agent, so they
 * are untrusted: a link to a file of the host, an endless pipe, an invalid number. No content of the folder causes an
 * exception.
 */
export async function readReward(folder: string): Promise<RewardResult> {
  await using directory = await openFolder(folder)
  if (!directory) return { kind: 'missing' }
  // Opened through the handle, so that the folder cannot be replaced in between.
  const folderPath = process.platform === 'linux' ? `/proc/self/fd/${directory.fd}` : folder
  const [json, text] = [await readFile(folderPath, JSON_FILE), await readFile(folderPath, TEXT_FILE)]
  return combineResults(json && toResult(json, parseRewardsJson), text && toResult(text, parseRewardText))
}

function combineResults(json: RewardResult | undefined, text: RewardResult | undefined): RewardResult {
  if (!json || !text) return json ?? text ?? { kind: 'missing' }
  if (json.kind !== 'reward') return json
  if (text.kind !== 'reward') return text
  return json.reward === text.reward ? json : refuse(TEXT_FILE, 'files_disagree', `The file contradicts ${JSON_FILE}.`)
}

async function openFolder(folder: string): Promise<FileHandle | undefined> {
  return open(folder, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW).catch((error: unknown) => {
    if (!hasCode(error, 'ENOENT', 'ENOTDIR', 'ELOOP')) throw error
    return undefined
  })
}

type RewardFile = { file: string; bytes: Buffer } | Extract<RewardResult, { kind: 'refused' }>

/** Reads a reward file. Returns undefined if it does not exist. */
async function readFile(folderPath: string, file: string): Promise<RewardFile | undefined> {
  let handle: FileHandle
  try {
    handle = await open(join(folderPath, file), UNTRUSTED_FILE_FLAGS)
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return undefined
    return toOpenRefusal(file, codeOf(error)) ?? Promise.reject(error)
  }
  await using opened = handle
  return await readHandle(opened, file)
}

const NOT_A_FILE = 'Not a regular file.'

/** Converts the error code of a failed open. Returns undefined if the file did not cause the failure. */
export function toOpenRefusal(file: string, code: string): RewardFile | undefined {
  if (code === 'ELOOP') return refuse(file, 'not_a_file', 'The file is a symbolic link.')
  if (code === 'ENXIO' || code === 'ENODEV') return refuse(file, 'not_a_file', NOT_A_FILE)
  if (code === 'EACCES' || code === 'EPERM') return refuse(file, 'unreadable', 'Permission denied.')
  return undefined
}

async function readHandle(handle: FileHandle, file: string): Promise<RewardFile> {
  const stats = await handle.stat()
  if (!stats.isFile()) return refuse(file, 'not_a_file', NOT_A_FILE)
  if (stats.nlink !== 1) return refuse(file, 'linked', 'The file has more than one hard link.')
  const { buffer, bytesRead } = await handle.read(Buffer.alloc(REWARD_BYTES_MAX + 1))
  if (bytesRead === 0) return refuse(file, 'empty', 'The file is empty.')
  if (bytesRead > REWARD_BYTES_MAX) return refuse(file, 'too_large', `The limit is ${REWARD_BYTES_MAX} bytes.`)
  return { file, bytes: buffer.subarray(0, bytesRead) }
}

type Rewards = [key: string, value: number][]

function toResult(content: RewardFile, read: (text: string) => Rewards | RewardRefusal): RewardResult {
  if (!('bytes' in content)) return content
  const { file, bytes } = content
  const text = decodeUtf8(bytes)
  const rewards = text === undefined ? 'not_utf8' : read(text)
  if (typeof rewards === 'string') return refuse(file, rewards, MESSAGES[rewards] ?? 'The file cannot be read.')
  if (rewards.some(([, value]) => Math.abs(value) > REWARD_MAX)) {
    return refuse(file, 'out_of_range', `A reward must be between -${REWARD_MAX} and ${REWARD_MAX}.`)
  }
  const reward = (rewards.find(([key]) => key === MAIN_KEY) ?? (rewards.length === 1 ? rewards[0] : undefined))?.[1]
  return {
    kind: 'reward',
    passed: reward !== undefined && reward >= 1,
    reward: reward ?? null,
    rewards: Object.fromEntries(rewards),
  }
}

const MESSAGES: Partial<Record<RewardRefusal, string>> = {
  not_utf8: 'The file is not valid UTF-8.',
  not_a_number: 'The file must contain exactly one finite number.',
  not_rewards: 'The file must contain a JSON object of finite numbers.',
}

const MAIN_KEY = 'reward'
/** Larger values are treated as errors, since they would distort averages. Harbor has no limit. */
const REWARD_MAX = 1e6

/** Maximum length of a number, beyond the digits of a double. Longer texts are not matched: it would take quadratic time. */
const NUMERAL_LENGTH_MAX = 64
const NUMERAL = /^[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?$/i

function parseRewardText(text: string): Rewards | RewardRefusal {
  const numeral = trimAscii(text)
  const isValidNumber =
    numeral.length <= NUMERAL_LENGTH_MAX && NUMERAL.test(numeral) && Number.isFinite(Number(numeral))
  return isValidNumber ? [[MAIN_KEY, Number(numeral)]] : 'not_a_number'
}

/** Removes spaces, tabs and line ends, and no other white space. */
function trimAscii(text: string): string {
  let from = 0
  let to = text.length
  while (from < to && ' \t\r\n'.includes(text.charAt(from))) from += 1
  while (to > from && ' \t\r\n'.includes(text.charAt(to - 1))) to -= 1
  return text.slice(from, to)
}

const KEYS_MAX = 100
const KEY_LENGTH_MAX = 200

function parseRewardsJson(text: string): Rewards | RewardRefusal {
  const value: unknown = parseOrUndefined(() => JSON.parse(text))
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return 'not_rewards'
  const entries = Object.entries(value)
  const rewards = entries.filter((entry): entry is [string, number] => Number.isFinite(entry[1]))
  // All strings are keys, so their number differs from that of the entries only for duplicate keys.
  const hasOnlyNumbers =
    rewards.length === entries.length && (text.match(/"(?:[^"\\]|\\.)*"/g)?.length ?? 0) === entries.length
  const hasValidKeys = entries.length <= KEYS_MAX && entries.every(([key]) => isRewardKey(key))
  return hasOnlyNumbers && hasValidKeys && entries.length > 0 ? rewards : 'not_rewards'
}

/** Rejects control characters and lone surrogates. PostgreSQL stores neither a NUL character nor a lone surrogate. */
const isRewardKey = (key: string): boolean =>
  key !== '' && key.length <= KEY_LENGTH_MAX && key.isWellFormed() && !/\p{Cc}/u.test(key)

const refuse = (file: string, reason: RewardRefusal, message: string): Extract<RewardResult, { kind: 'refused' }> => ({
  kind: 'refused',
  file,
  reason,
  message,
})
