import { Argument, type Command } from 'commander'
import { call } from '../src/platform/http/client.ts'
import { withExample } from './help.ts'
import { openService } from './service.ts'
import { note, print, printJson, type Shell } from './shell.ts'

export function addBodiesCommand(models: Command, shell: Shell): void {
  withExample(
    models
      .command('bodies')
      .description(
        'Turn the recording of model requests and answers in trials on or off; admins can read them. Without an argument, show the setting',
      )
      .addArgument(new Argument('[state]').choices(['on', 'off']))
      .action((state: 'on' | 'off' | undefined, _flags: object, command: Command) => setBodies(shell, command, state)),
    'assay models bodies on',
  )
}

async function setBodies(shell: Shell, command: Command, state: 'on' | 'off' | undefined): Promise<void> {
  const service = await openService(shell, command)
  const { readGatewaySettings, changeGatewaySettings } = await import('../src/gateway/schema.ts')
  const params = { org: service.org }
  const { body } =
    state === undefined
      ? await call(service, readGatewaySettings, { params })
      : await call(service, changeGatewaySettings, { params, body: { recordBodies: state === 'on' } })
  if (service.json) return printJson(shell, body)
  if (state !== undefined) note(shell, 'Applies to trials that start from now on.')
  print(shell, body.recordBodies ? 'on' : 'off')
}
