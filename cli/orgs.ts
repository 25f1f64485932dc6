import { type Command, Option } from 'commander'
import { call } from '../src/platform/http/client.ts'
import { withExample } from './help.ts'
import { openAsOperator, openService, readGlobals } from './service.ts'
import { note, print, printJson, type Shell } from './shell.ts'
import { formatTime, printFacts } from './table.ts'

export function addOrgsCommands(assay: Command, shell: Shell): void {
  const orgs = assay.command('orgs').description('Manage workspaces').helpCommand(false)
  withExample(
    orgs
      .command('create')
      .description('Create a workspace and print its first admin key once (needs ASSAY_OPERATOR_KEY)')
      .argument('<login>', 'Login: letters, digits and . _ -')
      .option('--name <name>', 'Display name (default: the login)')
      .addOption(new Option('--kind <kind>', 'Kind of owner').choices(['org', 'user']).default('org'))
      .action((login: string, flags: CreateWorkspaceFlags, command: Command) =>
        create(shell, command, { login, ...flags }),
      ),
    'ASSAY_OPERATOR_KEY=… assay orgs create acme --name "Acme Inc."',
  )
  withExample(
    orgs
      .command('show')
      .description('Show the workspace')
      .action((_flags: object, command: Command) => show(shell, command)),
    'assay orgs show',
  )
  withExample(
    orgs
      .command('verify')
      .description(
        'Verify that a workspace belongs to the owner of its login; its releases are then endorsed (needs ASSAY_OPERATOR_KEY)',
      )
      .argument('<login>', 'Login of the workspace')
      .option('--undo', 'Remove the verification')
      .action((login: string, flags: { undo?: boolean }, command: Command) =>
        verify(shell, command, { login, ...flags }),
      ),
    'ASSAY_OPERATOR_KEY=… assay orgs verify acme',
  )
}

type CreateWorkspaceFlags = { name?: string; kind: 'org' | 'user' }

async function create(shell: Shell, command: Command, flags: CreateWorkspaceFlags & { login: string }): Promise<void> {
  const { createWorkspace } = await import('../src/workspaces/schema.ts')
  const { login, name = login, kind } = flags
  const { body } = await call(openAsOperator(shell, command), createWorkspace, { body: { login, name, kind } })
  if (readGlobals(command).json) return printJson(shell, body)
  note(shell, `Created the workspace ${body.login}. Its admin key, shown only once:`)
  print(shell, body.key)
}

async function verify(
  shell: Shell,
  command: Command,
  { login, undo }: { login: string; undo?: boolean },
): Promise<void> {
  const { unverifyWorkspace, verifyWorkspace } = await import('../src/releases/schema.ts')
  const service = openAsOperator(shell, command)
  const { body } = await call(service, undo ? unverifyWorkspace : verifyWorkspace, { params: { login } })
  if (readGlobals(command).json) return printJson(shell, body ?? null)
  note(shell, `The workspace ${login} is ${undo ? 'no longer verified' : 'verified'}.`)
}

async function show(shell: Shell, command: Command): Promise<void> {
  const { readWorkspace } = await import('../src/workspaces/schema.ts')
  const service = await openService(shell, command)
  const { body } = await call(service, readWorkspace, { params: { org: service.org } })
  if (service.json) return printJson(shell, body)
  printFacts(shell, [
    ['login', body.login],
    ['name', body.name],
    ['kind', body.kind],
    ['credential storage', body.credentialStorage ? 'on' : 'off'],
    ['created', formatTime(body.createdAt, '-')],
  ])
}
