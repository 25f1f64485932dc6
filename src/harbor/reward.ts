import { constants } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { join } from 'node:path'
import { codeOf, hasCode } from '../platform/blobs/error-codes.ts'
import { REWARD_BYTES_MAX } from './limits.ts'
import { decoded } from './text-file.ts'

export type RewardReading =
  /** The reward that counts is the one called `reward`, or the only one; without either the task is not passed. */
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

/** What Harbor calls them, in the order in which it looks for them. */
const JSON_FILE = 'reward.json'
const TEXT_FILE = 'reward.txt'

/**
 * Reads what the tests have written into the folder of the verifier, when nothing that could change it runs any more.
 * All of it may come from the agent: a link to a file of ours, a pipe that never ends, a number that is none. Never
 * throws for what is there.
 */
export async function readReward(folder: string): Promise<RewardReading> {
  await using directory = await openFolder(folder)
  if (!directory) return { kind: 'missing' }
  // Through the handle, so that nobody can put another folder in its place meanwhile.
  const place = process.platform === 'linux' ? `/proc/self/fd/${directory.fd}` : folder
  const [json, text] = [await readFile(place, JSON_FILE), await readFile(place, TEXT_FILE)]
  return decide(json && readingOf(json, rewardsIn), text && readingOf(text, rewardIn))
}

function decide(json: RewardReading | undefined, text: RewardReading | undefined): RewardReading {
  if (!json || !text) return json ?? text ?? { kind: 'missing' }
  if (json.kind !== 'reward') return json
  if (text.kind !== 'reward') return text
  return json.reward === text.reward ? json : refused(TEXT_FILE, 'files_disagree', `It is not what ${JSON_FILE} says.`)
}

async function openFolder(folder: string): Promise<FileHandle | undefined> {
  return open(folder, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW).catch((error: unknown) => {
    if (!hasCode(error, 'ENOENT', 'ENOTDIR', 'ELOOP')) throw error
    return undefined
  })
}

type Content = { file: string; bytes: Buffer } | Extract<RewardReading, { kind: 'refused' }>

/** Never follows a link, and never waits for whoever has the other end of a pipe. */
const CAREFULLY = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK

/** Undefined when there is no such file. */
async function readFile(place: string, file: string): Promise<Content | undefined> {
  let handle: FileHandle
  try {
    handle = await open(join(place, file), CAREFULLY)
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return undefined
    return unopened(file, codeOf(error)) ?? Promise.reject(error)
  }
  await using opened = handle
  return await contentOf(opened, file)
}

/** The refusal for the code of a failed open. Undefined: the failure is not caused by the file. */
export function unopened(file: string, code: string): Content | undefined {
  if (code === 'ELOOP') return refused(file, 'not_a_file', 'It is a link.')
  if (code === 'ENXIO' || code === 'ENODEV') return refused(file, 'not_a_file', 'It is no file.')
  if (code === 'EACCES' || code === 'EPERM') return refused(file, 'unreadable', 'It may not be read.')
  return undefined
}

async function contentOf(handle: FileHandle, file: string): Promise<Content> {
  const stats = await handle.stat()
  if (!stats.isFile()) return refused(file, 'not_a_file', 'It is no file.')
  if (stats.nlink !== 1) return refused(file, 'linked', 'It has a second name.')
  const { buffer, bytesRead } = await handle.read(Buffer.alloc(REWARD_BYTES_MAX + 1))
  if (bytesRead === 0) return refused(file, 'empty', 'It is empty.')
  if (bytesRead > REWARD_BYTES_MAX) return refused(file, 'too_large', `The most is ${REWARD_BYTES_MAX} bytes.`)
  return { file, bytes: buffer.subarray(0, bytesRead) }
}

type Rewards = [key: string, value: number][]

function readingOf(content: Content, read: (text: string) => Rewards | RewardRefusal): RewardReading {
  if (!('bytes' in content)) return content
  const { file, bytes } = content
  const text = decoded(bytes)
  const rewards = text === undefined ? 'not_utf8' : read(text)
  if (typeof rewards === 'string') return refused(file, rewards, MESSAGES[rewards] ?? 'It cannot be read.')
  if (rewards.some(([, value]) => Math.abs(value) > REWARD_MAX)) {
    return refused(file, 'out_of_range', `No reward is more than ${REWARD_MAX}.`)
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
  not_utf8: 'It is no UTF-8 text.',
  not_a_number: 'A finite number is expected, and nothing else.',
  not_rewards: 'A table of names and finite numbers is expected, and nothing else.',
}

const MAIN_KEY = 'reward'
/** Harbor has no limit. Beyond this one it is no reward but an accident, or an attempt to spoil an average. */
const REWARD_MAX = 1e6

/** More digits than a double has. */
const NUMERAL_LENGTH_MAX = 64
const NUMERAL = /^[ \t\r\n]*([+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)[ \t\r\n]*$/i

function rewardIn(text: string): Rewards | RewardRefusal {
  const numeral = NUMERAL.exec(text)?.[1]
  const isOne = numeral !== undefined && numeral.length <= NUMERAL_LENGTH_MAX && Number.isFinite(Number(numeral))
  return isOne ? [[MAIN_KEY, Number(numeral)]] : 'not_a_number'
}

const KEYS_MAX = 100
const KEY_LENGTH_MAX = 200

function rewardsIn(text: string): Rewards | RewardRefusal {
  const value = parsed(text)
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return 'not_rewards'
  const entries = Object.entries(value)
  const rewards = entries.filter((entry): entry is [string, number] => Number.isFinite(entry[1]))
  // All texts in it are keys, so there are as many as entries, unless one of them comes twice.
  const isPlain =
    rewards.length === entries.length && (text.match(/"(?:[^"\\]|\\.)*"/g)?.length ?? 0) === entries.length
  const fits = entries.length <= KEYS_MAX && entries.every(([key]) => isRewardKey(key))
  return isPlain && fits && entries.length > 0 ? rewards : 'not_rewards'
}

/** A database stores neither a NUL character nor half of a surrogate pair, and no other control character is a name. */
const isRewardKey = (key: string): boolean =>
  key !== '' && key.length <= KEY_LENGTH_MAX && key.isWellFormed() && !/\p{Cc}/u.test(key)

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

const refused = (
  file: string,
  reason: RewardRefusal,
  message: string,
): Extract<RewardReading, { kind: 'refused' }> => ({ kind: 'refused', file, reason, message })
