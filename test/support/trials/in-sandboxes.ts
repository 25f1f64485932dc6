import { afterAll, beforeAll, describe } from 'vitest'
import { hasPart, isLongRun } from '../parts.ts'
import { openTrialRunner, SANDBOXES, type SandboxName } from './trial-runner.ts'

/** The first sandbox runs all cases every time; the others run a share, except in the long run. */
const [FIRST] = SANDBOXES
const SHARE = 8

type TrialRunner = Awaited<ReturnType<typeof openTrialRunner>>
type SandboxSuite = {
  runner: Pick<TrialRunner, 'run' | 'output'> & { readonly folder: string; readonly provider: TrialRunner['provider'] }
  sandbox: SandboxName
  /** Returns all cases, or every eighth one; different ones in each sandbox. */
  share<T>(cases: readonly T[]): T[]
  /** True if cases that cannot be shared out are run too. */
  isFull: boolean
}

/** Runs a suite in every sandbox. Sandboxes that this machine does not support are skipped. */
export function inSandboxes(suite: (tools: SandboxSuite) => void): void {
  for (const sandbox of SANDBOXES) {
    describe.skipIf(!hasPart(sandbox))(`in ${sandbox}`, () => suite(openSuite(sandbox)))
  }
}

function openSuite(sandbox: SandboxName): SandboxSuite {
  let opened: TrialRunner | undefined
  const runner = (): TrialRunner => {
    if (!opened) throw new Error('The trial runner is opened before the first test.')
    return opened
  }
  beforeAll(async () => {
    opened = await openTrialRunner(sandbox)
  }, 600_000)
  afterAll(async () => opened?.[Symbol.asyncDispose](), 60_000)
  const isFull = sandbox === FIRST || isLongRun()
  const offset = SANDBOXES.indexOf(sandbox) % SHARE
  return {
    sandbox,
    isFull,
    share: (cases) => (isFull ? [...cases] : cases.filter((_, index) => index % SHARE === offset)),
    runner: {
      run: (...args) => runner().run(...args),
      output: (...path) => runner().output(...path),
      get folder() {
        return runner().folder
      },
      get provider() {
        return runner().provider
      },
    },
  }
}
