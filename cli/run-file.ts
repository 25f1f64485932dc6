import { readFile } from 'node:fs/promises'
import type { Command, Option } from 'commander'
import { parseDocument, stringify } from 'yaml'
import { suggestName } from '../src/platform/suggestion.ts'
import { WrongUse } from './failure.ts'

/** Key of the target, which is an argument of the command and not an option. */
const TARGET_KEY = 'target'
/** Options that a run file cannot set. */
const EXCLUDED_OPTIONS = ['--file', '--print-config', '--help']

/**
 * Reads a run file and sets the options of the command that the command line does not set. Keys have the names of the
 * options. Returns the target that the file names.
 */
export async function applyRunFile(command: Command, path: string): Promise<string | undefined> {
  const values = await readRunFile(path)
  const options = new Map(listOptions(command).map((option) => [toKey(option), option]))
  const knownKeys = [TARGET_KEY, ...options.keys()]
  for (const [key, value] of Object.entries(values)) {
    if (key === TARGET_KEY) continue
    const option = options.get(key)
    if (!option)
      throw new WrongUse(`${path}: unknown key ${key}.${suggestName(key, knownKeys) || formatKeys(knownKeys)}`)
    setOption(command, option, requireValue(option, value, path))
  }
  const target = values[TARGET_KEY]
  if (target !== undefined && typeof target !== 'string') throw new WrongUse(`${path}: ${TARGET_KEY} must be a text.`)
  return target
}

/** Sets an option, unless the command line sets it. */
function setOption(command: Command, option: Option, value: OptionValue): void {
  const name = option.attributeName()
  if (command.getOptionValueSource(name) !== 'cli') command.setOptionValueWithSource(name, value, 'config')
}

type OptionValue = string | string[] | boolean

function requireValue(option: Option, value: unknown, path: string): OptionValue {
  const parsed = parseValue(option, value)
  if (parsed !== undefined) return parsed
  throw new WrongUse(`${path}: ${toKey(option)} must be ${describeType(option)}.`)
}

/** Formats the options of a command and its target as a run file. `resolved` has values for options that were not set. */
export function formatRunFile(command: Command, target: string, resolved: Record<string, string>): string {
  const values = listOptions(command).flatMap((option) => {
    const value: unknown = resolved[toKey(option)] ?? command.getOptionValue(option.attributeName())
    const isEmpty = value === undefined || (Array.isArray(value) && value.length === 0)
    return isEmpty ? [] : [[toKey(option), value]]
  })
  return stringify({ [TARGET_KEY]: target, ...Object.fromEntries(values) })
}

async function readRunFile(path: string): Promise<Record<string, unknown>> {
  const text = await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
    throw new WrongUse(
      `Cannot read the run file ${path}: ${error.code === 'ENOENT' ? 'it does not exist' : error.code}.`,
    )
  })
  const document = parseDocument(text)
  const [error] = document.errors
  if (error) throw new WrongUse(`${path} is not valid YAML: ${error.message.split('\n')[0]}`)
  const values: unknown = document.toJS({ maxAliasCount: 0 })
  if (isRecord(values)) return values
  throw new WrongUse(`${path} must contain keys and values, for example model: ollama/qwen3.`)
}

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const listOptions = ({ options }: Command): Option[] =>
  options.filter(({ long }) => long !== undefined && !EXCLUDED_OPTIONS.includes(long)) as Option[]

const toKey = ({ long }: Option): string => (long ?? '').slice(2)

const formatKeys = (known: readonly string[]): string => ` Known: ${known.join(', ')}.`

const isList = ({ defaultValue }: Option): boolean => Array.isArray(defaultValue)

/** Converts a value of the file to what the command line would give, or returns undefined if the type is wrong. */
function parseValue(option: Option, value: unknown): OptionValue | undefined {
  if (option.isBoolean()) return typeof value === 'boolean' ? value : undefined
  if (!isList(option)) return toText(value)
  const texts = (Array.isArray(value) ? value : [value]).map(toText)
  return texts.every((text) => text !== undefined) ? texts : undefined
}

const toText = (value: unknown): string | undefined =>
  typeof value === 'string' || typeof value === 'number' ? String(value) : undefined

function describeType(option: Option): string {
  if (option.isBoolean()) return 'true or false'
  return isList(option) ? 'a text or a list of texts' : 'a text or a number'
}
