import { writeFile } from 'node:fs/promises'
import { setTimeout as wait } from 'node:timers/promises'
import type { Command } from 'commander'
import type { LocatedTrial, TrialArtifact, TrialCall } from '../src/comparisons/shapes/schema.ts'
import { call, download } from '../src/platform/http/client.ts'
import { openScope, type ScopeClient } from './comparison-scope.ts'
import { WrongUse } from './failure.ts'
import { withExample } from './help.ts'
import { formatBytes } from './progress.ts'
import { openService, requireId, type Service } from './service.ts'
import { note, print, printJson, type Shell } from './shell.ts'
import { formatTime, printFacts, printTable } from './table.ts'
import { formatTrajectory } from './trajectory-text.ts'

type LogFlags = { follow?: boolean; lines?: string }
type ArtifactFlags = { output?: string }
type TrialVerb = (shell: Shell, opened: OpenedTrial, flags: LogFlags & ArtifactFlags, name?: string) => Promise<void>

/** A trial, and the scope under which its artifacts and calls are read. */
export type OpenedTrial = { service: Service; trial: LocatedTrial; scope: ScopeClient; params: TrialParams }
type TrialParams = Record<string, string> & { org: string; comparisonId: string; trialId: string }

const ID_EXAMPLE = '00000000-002a-8000-8000-000000000000'

/** Adds the commands that look into one trial of a comparison. */
export function addTrialsCommands(assay: Command, shell: Shell): void {
  const trials = assay.command('trials').description('Look into the trials of comparisons').helpCommand(false)
  const add = (verb: string, about: string, run: TrialVerb): Command => {
    const command = trials
      .command(verb)
      .description(about)
      .argument('<trial-id>', 'Id from `assay comparisons trials`')
      .action(async (id: string, ...rest: [...(string | undefined)[], LogFlags & ArtifactFlags, Command]) => {
        // Commander passes the other arguments, then the flags and the command.
        const [name] = rest.slice(0, -2)
        const [flags, called] = rest.slice(-2) as [LogFlags & ArtifactFlags, Command]
        await run(shell, await openTrial(shell, called, id), flags, name as string | undefined)
      })
    return withExample(command, `assay trials ${verb} ${ID_EXAMPLE}`)
  }
  add('show', 'Show the result of a trial, why it has no full score, and what it cost', printTrial)
  add('logs', 'Print the output of the agent and the verifier', printLogs)
    .option('--follow', 'Print model calls as they end, and the logs once the trial has ended')
    .option('--lines <number>', 'Print only the last lines of each log')
  add('diff', 'Print the changes that the agent made', printDiff)
  add('trajectory', 'Print the messages and tool calls of the agent', printTrajectory)
  add('artifacts', 'List the files of a trial; with a name, print or save one', printArtifacts)
    .argument('[name]', 'Name of the file')
    .option('--output <path>', 'Save the file under this path, which must not exist yet')
}

async function openTrial(shell: Shell, command: Command, id: string): Promise<OpenedTrial> {
  const trialId = requireId(id, 'assay comparisons trials')
  return locateTrial(await openService(shell, command), trialId)
}

/** Reads a trial and finds its scope. */
export async function locateTrial(service: Service, trialId: string): Promise<OpenedTrial> {
  const trial = await readTrial(service, trialId)
  const { id: comparisonId, scope: scopeRef } = trial.comparison
  const scope =
    scopeRef.kind === 'benchmark'
      ? await openScope({}, `${scopeRef.datasetOrg}/${scopeRef.dataset}`)
      : await openScope({ repo: `${scopeRef.owner}/${scopeRef.name}` }, undefined)
  return { service, trial, scope, params: { org: service.org, ...scope.params, comparisonId, trialId } }
}

async function readTrial(service: Service, trialId: string): Promise<LocatedTrial> {
  const { readTrialById } = await import('../src/comparisons/schema.ts')
  return (await call(service, readTrialById, { params: { org: service.org, trialId } })).body
}

async function printTrial(shell: Shell, { service, trial, scope }: OpenedTrial): Promise<void> {
  if (service.json) return printJson(shell, trial)
  printFacts(shell, toFacts(trial, scope))
  for (const { class: trialClass, error, at } of trial.spoiled)
    print(shell, `Earlier attempt ${formatTime(at, '-')}: ${trialClass}: ${error}`)
  if (trial.artifacts.length > 0) note(shell, `To look inside: assay trials logs|diff|trajectory|artifacts ${trial.id}`)
}

type TrialFact = [name: string, value: string]

export const toFacts = (trial: LocatedTrial, scope: ScopeClient): TrialFact[] => [
  ['trial', trial.id],
  ['comparison', `${scope.argument} ${trial.comparison.id}`],
  ['task', trial.task.name],
  ['setting', trial.settingId],
  ['attempt', String(trial.attempt)],
  ['result', trial.class === null ? trial.state : `${trial.state} (${trial.class})`],
  ['reward', trial.reward === null ? 'none' : String(trial.reward)],
  ...toReasons(trial),
  ['verify mode', trial.verifyMode ?? '-'],
  ['isolation', trial.isolation ?? '-'],
  ['retries', String(trial.retries)],
  ...toTimes(trial),
  ...(trial.usage === null ? [] : [['tokens', formatUsage(trial.usage)] satisfies TrialFact]),
  ['cost', formatCost(trial)],
]

const toReasons = ({ explanation, error }: LocatedTrial): TrialFact[] => [
  ...(explanation === undefined ? [] : [['why', explanation] satisfies TrialFact]),
  ...(error === undefined || error === explanation ? [] : [['error', error] satisfies TrialFact]),
]

const toTimes = ({ timings }: LocatedTrial): TrialFact[] =>
  (['queue', 'prepare', 'agent', 'verify', 'total'] as const).flatMap((phase) => {
    const seconds = timings[phase]
    return seconds === null ? [] : [[phase, `${seconds.toFixed(2)} s`] satisfies TrialFact]
  })

function formatCost({ costUsd, costSource }: LocatedTrial): string {
  if (costUsd === null) return 'unknown'
  return `$${costUsd.toFixed(6)}${costSource === null ? '' : ` (${costSource})`}`
}

const formatUsage = ({ input, cacheRead, cacheWrite, output, reasoning }: NonNullable<LocatedTrial['usage']>) =>
  `${input} in, ${cacheRead + cacheWrite} cached, ${output} out (${reasoning} thinking)`

async function printLogs(shell: Shell, opened: OpenedTrial, flags: LogFlags): Promise<void> {
  const linesMax = flags.lines === undefined ? undefined : parseLineCount(flags.lines)
  const ended = flags.follow ? await followTrial(shell, opened) : opened
  const files = ended.trial.artifacts.filter(({ name }) => /^[^/]+\.log$/.test(name))
  if (files.length === 0) throw new Error(describeMissingFiles(ended.trial, 'logs'))
  const texts = await Promise.all(files.map(async (file) => ({ name: file.name, text: await readText(ended, file) })))
  if (ended.service.json) return printJson(shell, { logs: texts })
  for (const { name, text } of texts) {
    note(shell, `==> ${name} <==`)
    const lines = text.replace(/\n$/, '').split('\n')
    print(shell, ...(linesMax === undefined ? lines : lines.slice(-linesMax)))
  }
}

function parseLineCount(text: string): number {
  if (/^[1-9]\d{0,8}$/.test(text)) return Number(text)
  throw new WrongUse('--lines must be a number of lines.')
}

const POLL_MS = 1000
const CALLS_PER_PAGE = 200

/** Prints model calls as they end, until the trial has ended. */
async function followTrial(shell: Shell, opened: OpenedTrial): Promise<OpenedTrial> {
  let { trial } = opened
  let cursor: string | undefined
  while (true) {
    cursor = await printEndedCalls(shell, opened, cursor)
    if (trial.state !== 'queued' && trial.state !== 'running') return { ...opened, trial }
    await wait(POLL_MS)
    trial = await readTrial(opened.service, trial.id)
  }
}

/** Prints the calls after the cursor up to the first call that is still open. Returns the cursor after them. */
async function printEndedCalls(shell: Shell, { service, scope, params }: OpenedTrial, cursor: string | undefined) {
  let lastPrinted = cursor
  while (true) {
    const query = { limit: CALLS_PER_PAGE, cursor: lastPrinted }
    const { body } = await call(service, scope.endpoints.calls, { params, query })
    for (const each of body.calls) {
      if (each.outcome === 'open') return lastPrinted
      note(shell, formatCall(each))
      lastPrinted = each.id
    }
    if (body.nextCursor === null) return lastPrinted
  }
}

const formatCall = ({ at, outcome, status, failure, message, usage, totalMs }: TrialCall): string =>
  [
    formatTime(at, '-'),
    `call ${outcome}`,
    ...(status === null ? [] : [String(status)]),
    ...(failure === null ? [] : [failure]),
    ...(message === null ? [] : [message]),
    `${usage.input + usage.cacheRead + usage.cacheWrite} in, ${usage.output} out`,
    ...(totalMs === null ? [] : [`${(totalMs / 1000).toFixed(1)} s`]),
  ].join('  ')

const PATCH = 'changes.patch'

async function printDiff(shell: Shell, opened: OpenedTrial): Promise<void> {
  const text = await readText(
    opened,
    requireArtifact(opened.trial, (name) => name === PATCH, 'patch'),
  )
  if (opened.service.json) return printJson(shell, { patch: text })
  print(shell, ...text.replace(/\n$/, '').split('\n'))
}

async function printTrajectory(shell: Shell, opened: OpenedTrial): Promise<void> {
  const { trial, service } = opened
  requireArtifact(trial, isTrajectory, 'trajectory')
  const files = trial.artifacts.filter(({ name }) => isTrajectory(name))
  const trajectories = await Promise.all(files.map(async (file) => JSON.parse(await readText(opened, file))))
  if (service.json) return printJson(shell, { trajectories })
  for (const trajectory of trajectories) print(shell, ...formatTrajectory(trajectory))
}

const isTrajectory = (name: string): boolean => /^trajectory[^/]*\.json$/.test(name)

async function printArtifacts(shell: Shell, opened: OpenedTrial, flags: ArtifactFlags, name?: string): Promise<void> {
  const { service, trial } = opened
  if (name !== undefined) return printArtifact(shell, opened, flags, name)
  if (flags.output !== undefined) throw new WrongUse('--output needs the name of a file.')
  if (service.json) return printJson(shell, { artifacts: trial.artifacts })
  printTable<TrialArtifact>(shell, trial.artifacts, [
    ['NAME', (artifact) => artifact.name],
    ['SIZE', ({ bytes }) => formatBytes(bytes)],
    ['TYPE', ({ mediaType }) => mediaType],
  ])
}

/** Saves a file as it is, or prints it as text without terminal control sequences. */
async function printArtifact(shell: Shell, opened: OpenedTrial, { output }: ArtifactFlags, name: string) {
  const artifact = requireArtifact(opened.trial, (each) => each === name, name)
  if (output === undefined) return print(shell, ...(await readText(opened, artifact)).replace(/\n$/, '').split('\n'))
  const bytes = await readBytes(opened, artifact)
  await writeFile(output, bytes, { flag: 'wx' }).catch((error: unknown) => {
    throw isAlreadyExisting(error) ? new WrongUse(`${output} already exists.`) : error
  })
  note(shell, `Saved ${formatBytes(bytes.length)} in ${output}.`)
}

const isAlreadyExisting = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && error.code === 'EEXIST'

function requireArtifact(trial: LocatedTrial, matches: (name: string) => boolean, label: string): TrialArtifact {
  const artifact = trial.artifacts.find(({ name }) => matches(name))
  if (artifact) return artifact
  throw new Error(describeMissingFiles(trial, label))
}

function describeMissingFiles({ state, artifacts, id }: LocatedTrial, label: string): string {
  if (state === 'queued' || state === 'running') return `The trial is ${state}; its files appear when it has ended.`
  return artifacts.length === 0
    ? `The trial has no files: it ended before the agent started, or they have expired.`
    : `The trial has no ${label}. To list its files: assay trials artifacts ${id}`
}

const readBytes = async ({ service, scope, params }: OpenedTrial, { name }: TrialArtifact): Promise<Uint8Array> =>
  (await download(service, scope.endpoints.artifact, { params: { ...params, artifact: name } })).bytes

export const readText = async (opened: OpenedTrial, artifact: TrialArtifact): Promise<string> =>
  new TextDecoder().decode(await readBytes(opened, artifact))
