import { createLog } from '../../../src/platform/log.ts'
import { createDockerProvider } from '../../../src/sandboxes/docker.ts'
import { adoptableSpec } from './adoptable-spec.ts'

/** Starts an adoptable sandbox, prints `started` and waits to be killed. Arguments: data folder, socket, installation, id. */
const [dataFolder = '', path = '', installation = '', id = ''] = process.argv.slice(2)

const provider = createDockerProvider({
  connection: { kind: 'unix', path },
  installation,
  dataFolder,
  log: createLog('silent'),
})
const sandbox = await provider.start(await adoptableSpec(provider, dataFolder, id))
process.stdout.write('started\n')
await sandbox.exited
