import { type Command, Option } from 'commander'
import { call } from '../src/platform/http/client.ts'
import type { Repository } from '../src/repos/schema.ts'
import { withExample } from './help.ts'
import { openRepository } from './repository.ts'
import { collectPages, openService } from './service.ts'
import { note, print, printJson, type Shell } from './shell.ts'
import { formatTime, printFacts, printTable } from './table.ts'

type RemoveRepositoryFlags = { withdraw?: boolean; keepPublic?: boolean }
type ConnectFlags = { git?: string; credential?: string; public?: boolean }

export function addReposCommands(assay: Command, shell: Shell): void {
  const repos = assay.command('repos').description('Manage repositories').helpCommand(false)
  withExample(
    repos
      .command('connect')
      .description('Connect a GitHub or plain git repository')
      .argument('<repository>', 'Repository as owner/name')
      .option('--git <url>', 'Plain git: an https or ssh URL, or a path that the operator allows')
      .option('--credential <id>', 'Code-host credential (default: the newest)')
      .option('--public', 'Plain git: the repository is public')
      .action((name: string, flags: ConnectFlags, command: Command) => connect(shell, command, flags, name)),
    'assay repos connect acme/widgets',
    'assay repos connect lab/demo --git https://git.example.org/demo.git',
  )
  withExample(
    repos
      .command('list')
      .description('List the repositories, newest first')
      .action((_flags: object, command: Command) => list(shell, command)),
    'assay repos list',
  )
  withExample(
    repos
      .command('show')
      .description('Show a repository')
      .argument('<repository>', 'Repository as owner/name')
      .action((name: string, _flags: object, command: Command) => show(shell, command, name)),
    'assay repos show acme/widgets',
  )
  withExample(
    repos
      .command('remove')
      .description('Remove a repository; connecting it again restores its batches')
      .argument('<repository>', 'Repository as owner/name')
      .addOption(new Option('--withdraw', 'Withdraw its public release; needs an admin key').conflicts('keepPublic'))
      .option('--keep-public', 'Keep its public release; it can be withdrawn later')
      .action((name: string, flags: RemoveRepositoryFlags, command: Command) => remove(shell, command, flags, name)),
    'assay repos remove acme/widgets',
    'assay repos remove acme/widgets --withdraw',
  )
}

const loadContract = () => import('../src/repos/schema.ts')

async function connect(shell: Shell, command: Command, flags: ConnectFlags, name: string): Promise<void> {
  const { service, params } = await openRepository(shell, command, name)
  const { body, status } = await call(service, (await loadContract()).connectRepository, {
    params,
    body: {
      source: flags.git === undefined ? { kind: 'github' } : { kind: 'git', url: flags.git },
      credentialId: flags.credential,
      visibility: flags.public ? 'public' : undefined,
    },
  })
  if (service.json) return printJson(shell, body)
  const result = status === 201 ? 'is connected' : 'was already connected; its connection is updated'
  note(shell, `${body.fullName} ${result}. To see its pull requests: assay batches preview --repo ${body.fullName}`)
  note(shell, 'Its id:')
  print(shell, String(body.id))
}

async function list(shell: Shell, command: Command): Promise<void> {
  const service = await openService(shell, command)
  const { listRepositories } = await loadContract()
  const { items: repos } = await collectPages(async (query) => {
    const { body } = await call(service, listRepositories, { params: { org: service.org }, query })
    return { items: body.repos, nextCursor: body.nextCursor }
  })
  if (service.json) return printJson(shell, { repos })
  printTable<Repository>(shell, repos, [
    ['REPOSITORY', ({ fullName }) => fullName],
    ['SOURCE', ({ source }) => source.kind],
    ['VISIBILITY', ({ visibility }) => visibility],
    ['CONNECTED', ({ connectedAt }) => formatTime(connectedAt, '-')],
  ])
}

async function show(shell: Shell, command: Command, name: string): Promise<void> {
  const { service, params } = await openRepository(shell, command, name)
  const { body } = await call(service, (await loadContract()).readRepository, { params })
  if (service.json) return printJson(shell, body)
  printFacts(shell, [
    ['repository', body.fullName],
    ['id', String(body.id)],
    ['source', body.source.kind === 'git' ? body.source.url : body.source.kind],
    ['visibility', body.visibility],
    ['credential', body.credentialId ?? '-'],
    ['connected', formatTime(body.connectedAt, '-')],
  ])
}

async function remove(shell: Shell, command: Command, flags: RemoveRepositoryFlags, name: string): Promise<void> {
  const { service, params } = await openRepository(shell, command, name)
  await call(service, (await loadContract()).removeRepository, { params, query: toRemoveQuery(flags) })
  if (!service.json) note(shell, `Removed ${name}.`)
}

function toRemoveQuery({ withdraw, keepPublic }: RemoveRepositoryFlags): { withdraw?: 'true' | 'false' } {
  if (withdraw) return { withdraw: 'true' }
  return keepPublic ? { withdraw: 'false' } : {}
}
