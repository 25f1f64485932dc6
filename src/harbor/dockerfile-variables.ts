import type { Dockerfile, DockerfileInstruction } from './dockerfile.ts'

/** Maximum number of characters of all values of a Dockerfile with their variables replaced. */
export const EXPANDED_LENGTH_MAX = 4 * 1024 * 1024

/** Instructions whose variables are left to a shell. */
const SHELL_INSTRUCTIONS = new Set(['RUN', 'CMD', 'ENTRYPOINT', 'HEALTHCHECK', 'SHELL', 'MAINTAINER'])

/**
 * Returns an upper bound of the characters that a build writes when it replaces variables. Values that contain each other
 * several times grow exponentially and would exhaust the memory of the builder. `args` are arguments of the build.
 */
export function measureExpansion({ globals, stages }: Dockerfile, args: Readonly<Record<string, string>> = {}): number {
  const lengths = new Map<string, number>()
  let total = 0
  for (const instruction of globals) total += measureInstruction(instruction, lengths, args)
  for (const { image, instructions } of stages) {
    total += measureText(image, lengths)
    for (const instruction of instructions) total += measureInstruction(instruction, lengths, args)
  }
  return total
}

type VariableLengths = Map<string, number>

function measureInstruction(
  { keyword, pairs, text, flags }: DockerfileInstruction,
  lengths: VariableLengths,
  args: Readonly<Record<string, string>>,
): number {
  if (SHELL_INSTRUCTIONS.has(keyword)) return 0
  const all = [text, ...flags.map(({ value }) => value ?? '')]
  const total = all.reduce((sum, each) => sum + measureText(each, lengths), 0)
  if (keyword !== 'ENV' && keyword !== 'ARG') return total
  for (const { name, value } of pairs) {
    const given = keyword === 'ARG' && Object.hasOwn(args, name) ? (args[name] ?? '').length : 0
    // The longest value counts, because stages are not followed.
    lengths.set(name, Math.max(lengths.get(name) ?? 0, measureText(value ?? '', lengths), given))
  }
  return total
}

const REFERENCE = /\$\{?(\w+)/g

const measureText = (text: string, lengths: VariableLengths): number =>
  text.matchAll(REFERENCE).reduce((sum, [, name = '']) => sum + (lengths.get(name) ?? 0), text.length)
