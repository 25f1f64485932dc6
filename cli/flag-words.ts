import type { Command } from 'commander'

/** Fields whose flag has another name. */
const FLAGS: Record<string, string> = {
  budgetUsd: '--budget',
  candidateCounts: '--easy, --medium and --hard',
  credentialId: '--credential',
  defaultReasoningLevel: '--default-level',
  expiresAt: '--expires',
  reasoningLevels: '--levels',
  trialBudgetUsd: '--trial-budget',
  url: '--git',
}

/** Returns the flag or argument for a field of a request, otherwise its JSON Pointer. */
export function describeField(pointer: string, command: Command | undefined): string {
  const steps = pointer.split('/').filter((step) => step !== '' && !/^\d+$/.test(step))
  const words = steps.map((step) => findFlag(step, command) ?? findArgument(step, command))
  const last = words.findLastIndex((word) => word !== undefined)
  if (last < 0) return pointer || '/'
  const inside = steps.slice(last + 1).join('.')
  return inside === '' ? `${words[last]}` : `${words[last]} (${inside})`
}

function findFlag(field: string, command: Command | undefined): string | undefined {
  const known = command?.options.map(({ long }) => long ?? '') ?? []
  const kebab = `--${toKebabCase(field)}`
  const named = FLAGS[field] ?? kebab
  return [named, kebab, kebab.replace(/e?s$/, ''), kebab.replace(/s$/, '')].find((flag) =>
    flag.split(/, | and /).every((each) => known.includes(each)),
  )
}

const findArgument = (field: string, command: Command | undefined): string | undefined =>
  command?.registeredArguments.some((argument) => argument.name() === toKebabCase(field))
    ? `<${toKebabCase(field)}>`
    : undefined

const toKebabCase = (field: string): string => field.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)
