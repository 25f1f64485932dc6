import type { Command } from 'commander'
import { call } from '../src/platform/http/client.ts'
import type { Preview, PreviewSetting, PublishedRelease } from '../src/releases/shapes/schema.ts'
import { requireConfirmation, YES, type YesFlag } from './confirm.ts'
import { WrongUse } from './failure.ts'
import { withExample } from './help.ts'
import { type OpenedRepository, openRepository, REPO, type RepoFlag } from './repository.ts'
import { collectPages, requireId } from './service.ts'
import { note, print, printJson, type Shell } from './shell.ts'
import { formatCount, formatTime, printTable } from './table.ts'

const SETTING = ['--setting <id...>', 'Only these settings (default: all that can be published)'] as const

type ChooseFlags = RepoFlag & { setting?: string[] }
type PublishFlags = ChooseFlags & YesFlag & { publishTasks?: boolean; fingerprint?: string }

export function addReleasesCommands(assay: Command, shell: Shell): void {
  const releases = assay.command('releases').description('Manage published results of a repository').helpCommand(false)
  withExample(
    releases
      .command('preview')
      .description('Preview a release and what prevents publishing it')
      .requiredOption(...REPO)
      .option(...SETTING)
      .action((flags: ChooseFlags, command: Command) => printPreview(shell, command, flags)),
    'assay releases preview --repo lab/demo',
  )
  withExample(
    releases
      .command('publish')
      .description('Publish results. Shows what becomes public and asks on a terminal')
      .requiredOption(...REPO)
      .option(...SETTING)
      .option('--fingerprint <text>', 'Fingerprint of the preview; refused if results have changed since')
      .option(
        '--publish-tasks',
        'Also publish the files of the tasks; published files may have been copied and cannot be recalled',
      )
      .option(...YES)
      .action((flags: PublishFlags, command: Command) => publish(shell, command, flags)),
    'assay releases publish --repo lab/demo',
  )
  withExample(
    releases
      .command('list')
      .description('List the releases, newest first')
      .requiredOption(...REPO)
      .action((flags: RepoFlag, command: Command) => list(shell, command, flags)),
    'assay releases list --repo lab/demo',
  )
  withExample(
    releases
      .command('withdraw')
      .description('Withdraw a release; the history keeps it with the reason')
      .argument('<release>', 'Release id')
      .requiredOption(...REPO)
      .requiredOption('--reason <text>', 'Reason, publicly visible')
      .action((id: string, flags: RepoFlag & { reason: string }, command: Command) =>
        withdraw(shell, command, { id, ...flags }),
      ),
    'assay releases withdraw 0190… --repo lab/demo --reason "Two tasks were broken."',
  )
}

const loadContract = () => import('../src/releases/schema.ts')

async function readPreview({ service, params }: OpenedRepository, { setting }: ChooseFlags): Promise<Preview> {
  const query = setting ? { setting } : {}
  return (await call(service, (await loadContract()).previewRelease, { params, query })).body
}

async function printPreview(shell: Shell, command: Command, flags: ChooseFlags): Promise<void> {
  const opened = await openRepository(shell, command, flags.repo)
  const preview = await readPreview(opened, flags)
  if (opened.service.json) return printJson(shell, preview)
  printTable<PreviewSetting>(shell, preview.settings, [
    ['SETTING', ({ key }) => key],
    ['PASSED', ({ passed, tasks }) => `${passed}/${tasks}`],
    ['ACCURACY', formatAccuracy],
    ['PER TASK', ({ costPerTaskUsd }) => (costPerTaskUsd === null ? '-' : `$${costPerTaskUsd}`)],
    ['FRONTIER', ({ onFrontier }) => (onFrontier ? 'yes' : '')],
    ['PUBLISHABLE', ({ reason }) => (reason === undefined ? 'yes' : UNPUBLISHABLE_REASONS[reason])],
  ])
  for (const { message } of preview.blockers) note(shell, `Blocked: ${message}`)
  note(shell, `${preview.tasks} tasks. Head: ${preview.head ?? 'none'}. Fingerprint: ${preview.fingerprint}`)
}

const UNPUBLISHABLE_REASONS: Record<NonNullable<PreviewSetting['reason']>, string> = {
  reference: 'no: only shows that tasks work',
  no_results: 'no: has no results',
  cost_unknown: 'no: its cost is not known',
}

function formatAccuracy({ accuracy, stats }: PreviewSetting): string {
  if (accuracy === null) return '-'
  const interval = stats?.ci95 ? ` (${Math.round(stats.ci95.low)}–${Math.round(stats.ci95.high)})` : ''
  return `${Math.round(accuracy * 10) / 10} %${interval}`
}

async function publish(shell: Shell, command: Command, flags: PublishFlags): Promise<void> {
  const opened = await openRepository(shell, command, flags.repo)
  const { service, params } = opened
  const preview = await readPreview(opened, flags)
  if (flags.fingerprint !== undefined && flags.fingerprint !== preview.fingerprint)
    throw new WrongUse('Results have changed since that preview. Run assay releases preview again.')
  const settings = flags.setting ?? preview.settings.filter(({ publishable }) => publishable).map(({ key }) => key)
  await confirmPublication(shell, preview, settings, flags)
  const { publishRelease } = await loadContract()
  const { status, body } = await call(service, publishRelease, {
    params,
    body: {
      settings,
      head: preview.head,
      fingerprint: preview.fingerprint,
      publishTasks: flags.publishTasks ?? false,
    },
  })
  if (service.json) return printJson(shell, body)
  note(
    shell,
    status === 201 ? `${body.repository.fullName} has a new release.` : 'Nothing has changed since the last release.',
  )
  note(shell, `Public at ${body.url}`)
  print(shell, body.releaseId)
}

/** Prints what becomes public, and asks on a terminal. */
async function confirmPublication(
  shell: Shell,
  { repository, tasks, blockers }: Preview,
  settings: readonly string[],
  flags: PublishFlags,
): Promise<void> {
  const files = flags.publishTasks ? ', and the files of the tasks' : ''
  note(
    shell,
    `${formatCount(settings.length, 'setting')} of ${repository.fullName} on ${formatCount(tasks, 'task')}${files}.`,
  )
  for (const { message } of blockers) note(shell, `Blocked: ${message}`)
  await requireConfirmation(shell, 'Publish these results for everybody to read?', flags)
}

async function list(shell: Shell, command: Command, { repo }: RepoFlag): Promise<void> {
  const { listReleases } = await loadContract()
  const { service, params } = await openRepository(shell, command, repo)
  const { items } = await collectPages<PublishedRelease>(async (query) => {
    const { body } = await call(service, listReleases, { params, query })
    return { items: body.releases, nextCursor: body.nextCursor }
  })
  if (service.json) return printJson(shell, { releases: items, nextCursor: null })
  printTable(shell, items, [
    ['RELEASE', ({ releaseId }) => releaseId],
    ['RELEASED', ({ releasedAt }) => formatTime(releasedAt, '-')],
    ['TASKS', ({ tasks }) => String(tasks)],
    ['SETTINGS', ({ settings }) => String(settings.length)],
    ['STATE', formatState],
  ])
}

function formatState({ isHead, withdrawn }: PublishedRelease): string {
  if (withdrawn) return `withdrawn: ${withdrawn.reason}`
  return isHead ? 'shown' : ''
}

async function withdraw(
  shell: Shell,
  command: Command,
  flags: RepoFlag & { id: string; reason: string },
): Promise<void> {
  const { withdrawRelease } = await loadContract()
  const releaseId = requireId(flags.id, 'assay releases list')
  const { service, params: repositoryParams } = await openRepository(shell, command, flags.repo)
  const params = { ...repositoryParams, releaseId }
  const { body } = await call(service, withdrawRelease, { params, body: { reason: flags.reason } })
  if (service.json) return printJson(shell, body)
  note(shell, `Withdrew the release ${releaseId}.`)
}
