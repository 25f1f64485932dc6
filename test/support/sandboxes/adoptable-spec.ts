import { join } from 'node:path'
import type { Exit, Sandbox, SandboxProvider, SandboxSpec } from '../../../src/sandboxes/sandbox.ts'
import { baseImage } from './docker-subject.ts'
import { plainSpec } from './plain-spec.ts'

/** Prints its input, waits for the file /go, then writes a file and ends with code 7. */
const SCRIPT = 'cat; until [ -e /go ]; do sleep 0.05; done; echo done; echo work > /result; exit 7'

/** Returns a sandbox that another process can adopt. */
export const adoptableSpec = async (
  provider: SandboxProvider,
  dataFolder: string,
  id: string,
): Promise<SandboxSpec> => ({
  ...plainSpec(await baseImage(provider), ['sh', '-c', SCRIPT], join(dataFolder, `${id}.log`)),
  id,
  usesExec: true,
  isAdoptable: true,
  input: 'begun\n',
})

/** Lets the command of the sandbox end. */
export const finishCommand = (sandbox: Sandbox, dataFolder: string): Promise<Exit> =>
  sandbox.exec({
    command: ['touch', '/go'],
    user: null,
    workdir: null,
    env: {},
    input: '',
    outputFile: join(dataFolder, 'go.log'),
    limits: { outputBytes: 1000, seconds: 10 },
  })
