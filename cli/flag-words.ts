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
export function wordFor(pointer: string, command: Command | undefined): string {
  const steps = pointer.split('/').filter((step) => step !== '' && !/^\d+$/.test(step))
  const words = steps.map((step) => flagOf(step, command) ?? argumentOf(step, command))
  const place = words.findLastIndex((word) => word !== undefined)
  if (place < 0) return pointer || '/'
  const inside = steps.slice(place + 1).join('.')
  return inside === '' ? `${words[place]}` : `${words[place]} (${inside})`
}

function flagOf(field: string, command: Command | undefined): string | undefined {
  const known = command?.options.map(({ long }) => long ?? '') ?? []
  const kebab = `--${kebabOf(field)}`
  const named = FLAGS[field] ?? kebab
  return [named, kebab, kebab.replace(/e?s$/, ''), kebab.replace(/s$/, '')].find((flag) =>
    flag.split(/, | and /).every((each) => known.includes(each)),
  )
}

const argumentOf = (field: string, command: Command | undefined): string | undefined =>
  command?.registeredArguments.some((argument) => argument.name() === kebabOf(field))
    ? `<${kebabOf(field)}>`
    : undefined

const kebabOf = (field: string): string => field.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)
