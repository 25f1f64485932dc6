import { type Command, Option } from 'commander'
import { call } from '../src/platform/http/client.ts'
import { withExample } from './help.ts'
import { globalsOf, openAsOperator, openService } from './service.ts'
import { note, print, printJson, type Shell } from './shell.ts'
import { moment, printFacts } from './table.ts'

export function addOrgsCommands(assay: Command, shell: Shell): void {
  const orgs = assay.command('orgs').description('Workspaces').helpCommand(false)
  withExample(
    orgs
      .command('create')
      .description('Create a workspace; prints its first admin key, this once (needs ASSAY_OPERATOR_KEY)')
      .argument('<login>', 'letters, digits and . _ -')
      .option('--name <name>', 'how people call it (default: the login)')
      .addOption(new Option('--kind <kind>', 'what it stands for').choices(['org', 'user']).default('org'))
      .action((login: string, flags: CreateFlags, command: Command) => create(shell, command, { login, ...flags })),
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
        'Say that a workspace belongs to whom its login names: its releases are endorsed (needs ASSAY_OPERATOR_KEY)',
      )
      .argument('<login>', 'of the workspace')
      .option('--undo', 'take that back')
      .action((login: string, flags: { undo?: boolean }, command: Command) =>
        verify(shell, command, { login, ...flags }),
      ),
    'ASSAY_OPERATOR_KEY=… assay orgs verify acme',
  )
}

type CreateFlags = { name?: string; kind: 'org' | 'user' }

async function create(shell: Shell, command: Command, wish: CreateFlags & { login: string }): Promise<void> {
  const { createWorkspace } = await import('../src/workspaces/schema.ts')
  const { login, name = login, kind } = wish
  const { body } = await call(openAsOperator(shell, command), createWorkspace, { body: { login, name, kind } })
  if (globalsOf(command).json) return printJson(shell, body)
  note(shell, `The workspace ${body.login} is there. Its admin key, shown this once:`)
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
  if (globalsOf(command).json) return printJson(shell, body ?? null)
  note(shell, `The workspace ${login} is ${undo ? 'not verified any more' : 'verified'}.`)
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
    ['created', moment(body.createdAt, '-')],
  ])
}
