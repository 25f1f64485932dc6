import { afterAll, beforeAll, describe } from 'vitest'
import { hasPart, isLongRun } from '../../../test/support/parts.ts'
import { openWorkbench, SANDBOXES, type SandboxName } from './workbench.ts'

/** The first is tried in full each time. The others get a share of the cases, except in the long run. */
const [FIRST] = SANDBOXES
const SHARE = 8

type Bench = Awaited<ReturnType<typeof openWorkbench>>
type Tools = {
  bench: Pick<Bench, 'run' | 'output'> & { readonly folder: string; readonly provider: Bench['provider'] }
  sandbox: SandboxName
  /** All cases, or every eighth: others in each sandbox. */
  share<T>(cases: readonly T[]): T[]
  /** Whether cases that stand for themselves are run too. */
  isFull: boolean
}

/** Runs a suite in every kind of sandbox. One whose parts this machine lacks is skipped, by name. */
export function inSandboxes(suite: (tools: Tools) => void): void {
  for (const sandbox of SANDBOXES) {
    describe.skipIf(!hasPart(sandbox))(`in ${sandbox}`, () => suite(toolsFor(sandbox)))
  }
}

function toolsFor(sandbox: SandboxName): Tools {
  let opened: Bench | undefined
  const bench = (): Bench => {
    if (!opened) throw new Error('The workbench is opened before the first test.')
    return opened
  }
  beforeAll(async () => {
    opened = await openWorkbench(sandbox)
  }, 600_000)
  afterAll(async () => opened?.[Symbol.asyncDispose](), 60_000)
  const isFull = sandbox === FIRST || isLongRun()
  const offset = SANDBOXES.indexOf(sandbox) % SHARE
  return {
    sandbox,
    isFull,
    share: (cases) => (isFull ? [...cases] : cases.filter((_, index) => index % SHARE === offset)),
    bench: {
      run: (...args) => bench().run(...args),
      output: (...path) => bench().output(...path),
      get folder() {
        return bench().folder
      },
      get provider() {
        return bench().provider
      },
    },
  }
}
