import { Argument, type Command } from 'commander'
import type { CredentialKind, CredentialProvider } from '../src/credentials/schema.ts'
import { call } from '../src/platform/http/client.ts'
import { Failed, WrongUse } from './failure.ts'
import { withExample } from './help.ts'
import { readSecret } from './secret.ts'
import { collectPages, openService, requireId, type Service } from './service.ts'
import { note, print, printJson, type Shell, styled } from './shell.ts'
import { formatTime, printTable } from './table.ts'

const FROM_ENV = ['--from-env <field=VARIABLE...>', 'Read a field of the secret from a variable'] as const
const SECRET_SOURCES =
  'The secret is read from a prompt on a terminal, from standard input as a JSON object of its fields, or from variables; never from flags.'

export function addCredentialsCommands(assay: Command, shell: Shell): Command {
  const credentials = assay
    .command('credentials')
    .description('Manage credentials of model, sandbox, registry and code-host providers')
    .helpCommand(false)
  addReadCommands(credentials, shell)
  addChangeCommands(credentials, shell)
  return credentials
}

function addReadCommands(credentials: Command, shell: Shell): void {
  withExample(
    credentials
      .command('providers')
      .description('List the providers and their fields')
      .action((_flags: object, command: Command) => printProviders(shell, command)),
    'assay credentials providers',
  )
  withExample(
    credentials
      .command('list')
      .description('List the credentials of the workspace')
      .action((_flags: object, command: Command) => list(shell, command)),
    'assay credentials list',
  )
  withExample(
    credentials
      .command('check')
      .description('Check a credential with its provider')
      .argument('<id>', 'Id from `assay credentials list`')
      .action((id: string, _flags: object, command: Command) => check(shell, command, id)),
    'assay credentials check 01981b3e-6c2b-7e0f-8a53-0d1b6f2f3c11',
  )
}

function addChangeCommands(credentials: Command, shell: Shell): void {
  withExample(
    credentials
      .command('add')
      .description(`Store a credential. ${SECRET_SOURCES}`)
      .addArgument(new Argument('<kind>', 'Kind of credential').choices(['model', 'sandbox', 'registry', 'code-host']))
      .argument('<provider>', 'Provider from `assay credentials providers`')
      .requiredOption('--name <name>', 'Display name')
      .option(...FROM_ENV)
      .action((kind: CredentialKind, provider: string, flags: AddCredentialFlags, command: Command) =>
        add(shell, command, { kind, provider, ...flags }),
      ),
    'assay credentials add model anthropic --name "Team key"',
    'assay credentials add code-host github --name bot --from-env token=GITHUB_TOKEN',
    'assay credentials add code-host ssh --name deploy --from-env privateKey=DEPLOY_KEY knownHosts=KNOWN_HOSTS',
    'assay credentials add model openai --name CI < secret.json',
  )
  withExample(
    credentials
      .command('update')
      .description(`Rename a credential or replace its secret. ${SECRET_SOURCES}`)
      .argument('<id>', 'Id from `assay credentials list`')
      .option('--name <name>', 'New name')
      .option('--secret', 'Replace the secret, with all its fields')
      .option(...FROM_ENV)
      .action((id: string, flags: UpdateCredentialFlags, command: Command) => update(shell, command, { id, ...flags })),
    'assay credentials update 01981b3e-6c2b-7e0f-8a53-0d1b6f2f3c11 --secret',
  )
  withExample(
    credentials
      .command('remove')
      .description('Remove an unused credential')
      .argument('<id>', 'Id from `assay credentials list`')
      .action((id: string, _flags: object, command: Command) => remove(shell, command, id)),
    'assay credentials remove 01981b3e-6c2b-7e0f-8a53-0d1b6f2f3c11',
  )
}

const loadContract = () => import('../src/credentials/schema.ts')

async function fetchProviders(service: Service): Promise<CredentialProvider[]> {
  const { listCredentialProviders } = await loadContract()
  return (await call(service, listCredentialProviders, { params: { org: service.org } })).body.providers
}

async function printProviders(shell: Shell, command: Command): Promise<void> {
  const service = await openService(shell, command)
  const providers = await fetchProviders(service)
  if (service.json) return printJson(shell, { providers })
  printTable<CredentialProvider>(shell, providers, [
    ['KIND', ({ kind }) => kind],
    ['PROVIDER', ({ provider }) => provider],
    ['FIELDS', ({ fields }) => fields.map(({ name, required }) => (required ? name : `[${name}]`)).join(' ')],
  ])
}

async function fetchCredentials(service: Service) {
  const { listCredentials } = await loadContract()
  return collectPages(async (query) => {
    const { body } = await call(service, listCredentials, { params: { org: service.org }, query })
    return { items: body.credentials, nextCursor: body.nextCursor }
  })
}

async function list(shell: Shell, command: Command): Promise<void> {
  const service = await openService(shell, command)
  const { items: credentials, nextCursor } = await fetchCredentials(service)
  if (service.json) return printJson(shell, { credentials, nextCursor })
  printTable(shell, credentials, [
    ['ID', ({ id }) => id],
    ['KIND', ({ kind }) => kind],
    ['PROVIDER', ({ provider }) => provider],
    ['NAME', ({ name }) => name],
    ['SOURCE', ({ source }) => source],
    ['HINT', ({ hint }) => hint],
    ['LAST USED', ({ lastUsedAt }) => formatTime(lastUsedAt, 'never')],
  ])
}

type AddCredentialFlags = { name: string; fromEnv?: string[] }
type AddCredentialInput = AddCredentialFlags & { kind: CredentialKind; provider: string }

async function add(
  shell: Shell,
  command: Command,
  { kind, provider, name, fromEnv = [] }: AddCredentialInput,
): Promise<void> {
  const { createCredential } = await loadContract()
  const service = await openService(shell, command)
  const fields = await fetchFields(service, kind, provider)
  const secret = await readSecret(shell, fields, fromEnv)
  const request = { params: { org: service.org }, body: { kind, provider, name, secret } }
  const { body } = await call(service, createCredential, request)
  if (service.json) return printJson(shell, body)
  note(shell, `Stored the credential "${body.name}". Its id:`)
  print(shell, body.id)
}

async function fetchFields(
  service: Service,
  kind: CredentialKind,
  provider: string,
): Promise<CredentialProvider['fields']> {
  const providers = await fetchProviders(service)
  const known = providers.find((each) => each.kind === kind && each.provider === provider)
  if (known) return known.fields
  throw new WrongUse(`Unknown ${kind} provider. See \`assay credentials providers\`.`)
}

type UpdateCredentialFlags = { name?: string; secret?: boolean; fromEnv?: string[] }
type UpdateCredentialInput = UpdateCredentialFlags & { id: string }

async function update(
  shell: Shell,
  command: Command,
  { id, name, secret, fromEnv = [] }: UpdateCredentialInput,
): Promise<void> {
  const credentialId = requireId(id, 'assay credentials list')
  const isNewSecret = secret === true || fromEnv.length > 0
  if (name === undefined && !isNewSecret) throw new WrongUse('Nothing to update. Use --name, --secret or both.')

  const { updateCredential } = await loadContract()
  const service = await openService(shell, command)
  const body = {
    name,
    secret: isNewSecret
      ? await readSecret(shell, await fetchCredentialFields(service, credentialId), fromEnv)
      : undefined,
  }
  const params = { org: service.org, credentialId }
  const { body: credential } = await call(service, updateCredential, { params, body })
  if (service.json) return printJson(shell, credential)
  note(shell, `Updated the credential "${credential.name}".`)
}

async function fetchCredentialFields(service: Service, id: string): Promise<CredentialProvider['fields']> {
  const { items } = await fetchCredentials(service)
  const credential = items.find((each) => each.id === id.toLowerCase())
  if (!credential) throw new Error(`Credential ${id} not found.`)
  return fetchFields(service, credential.kind, credential.provider)
}

async function remove(shell: Shell, command: Command, id: string): Promise<void> {
  const credentialId = requireId(id, 'assay credentials list')
  const { deleteCredential } = await loadContract()
  const service = await openService(shell, command)
  await call(service, deleteCredential, { params: { org: service.org, credentialId } })
  note(shell, `Removed the credential ${credentialId}.`)
}

async function check(shell: Shell, command: Command, id: string): Promise<void> {
  const credentialId = requireId(id, 'assay credentials list')
  const { checkCredential } = await loadContract()
  const service = await openService(shell, command)
  const { body } = await call(service, checkCredential, { params: { org: service.org, credentialId } })
  if (service.json) printJson(shell, body)
  else print(shell, `${formatResult(shell, body.ok)} ${body.detail} (${body.latencyMs} ms)`)
  if (!body.ok) throw new Failed()
}

const formatResult = (shell: Shell, ok: boolean): string =>
  ok ? styled(shell.output, 'green', '✓') : styled(shell.output, 'red', '✗')
