import { afterAll, beforeAll, describe } from 'vitest'
import { hasPart, isLongRun } from '../parts.ts'
import { openTrialRunner, SANDBOXES, type SandboxName } from './trial-runner.ts'

/** The first sandbox runs all cases every time; the others run a share, except in the long run. */
const [FULL_SANDBOX] = SANDBOXES
const SHARE = 8

type TrialRunner = Awaited<ReturnType<typeof openTrialRunner>>
export type SandboxSuite = {
  runner: Pick<TrialRunner, 'run' | 'output'> & { readonly folder: string; readonly provider: TrialRunner['provider'] }
  sandbox: SandboxName
  /** Returns all cases, or every eighth case, with a different offset in each sandbox. */
  share<T>(cases: readonly T[]): T[]
  /** True if this sandbox runs all cases. Check it before a case that is not part of a list. */
  isFull: boolean
}

/** Runs a suite in every sandbox. Sandboxes that this machine does not support are skipped. */
export function inSandboxes(suite: (fixture: SandboxSuite) => void): void {
  for (const sandbox of SANDBOXES) {
    describe.skipIf(!hasPart(sandbox))(`in ${sandbox}`, () => suite(openSuite(sandbox)))
  }
}

/** Opens a sandbox for the tests of the enclosing group. Kubernetes runs all cases. */
export function openSuite(sandbox: SandboxName): SandboxSuite {
  let opened: TrialRunner | undefined
  const runner = (): TrialRunner => {
    if (!opened) throw new Error('The trial runner is not open yet. Use it inside a test.')
    return opened
  }
  beforeAll(async () => {
    opened = await openTrialRunner(sandbox)
  }, 600_000)
  afterAll(async () => opened?.[Symbol.asyncDispose](), 60_000)
  const isFull = sandbox === FULL_SANDBOX || sandbox === 'kubernetes' || isLongRun()
  const names: readonly SandboxName[] = SANDBOXES
  const offset = names.indexOf(sandbox) % SHARE
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
