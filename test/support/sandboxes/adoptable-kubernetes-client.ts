import { createLog } from '../../../src/platform/log.ts'
import { openSettings } from '../../../src/sandboxes/kubernetes/connection.ts'
import { createKubernetesProvider } from '../../../src/sandboxes/kubernetes.ts'
import { adoptableSpec } from './adoptable-spec.ts'

/** Starts an adoptable sandbox, prints `started` and waits to be killed. Arguments: data folder, settings file, id. */
const [dataFolder = '', settings = '', id = ''] = process.argv.slice(2)

const provider = createKubernetesProvider({
  open: () => openSettings(settings),
  installation: 'adopting',
  dataFolder,
  log: createLog('silent'),
})
const sandbox = await provider.start(await adoptableSpec(provider, dataFolder, id))
process.stdout.write('started\n')
await sandbox.exited
