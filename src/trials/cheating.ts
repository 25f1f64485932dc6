import { shellCommand } from '../harnesses/reference.ts'
import { type SandboxProvider, SandboxUnavailable } from '../sandboxes/sandbox.ts'
import type { TrialRequest } from './bench.ts'
import { type Cheat, DOES_NOT_APPLY } from './cheats/cheat.ts'
import { cheats } from './cheats/cheats.ts'
import type { TrialRecord } from './record.ts'
import { runTrial } from './trial.ts'

/** `errored`: the verifier gave no reward, which is no win. */
export type CheatResult = {
  id: string
  what: string
  outcome: 'won' | 'lost' | 'errored' | 'does_not_apply'
  tries: number
}

/** Every known cheat, on the untouched task. */
export async function tryCheats(
  provider: SandboxProvider,
  request: Omit<TrialRequest, 'harness'>,
  onTrial: (what: string) => void = () => {},
): Promise<CheatResult[]> {
  const results: CheatResult[] = []
  for (const cheat of cheats) {
    onTrial(`cheat ${cheat.id}`)
    results.push(await tryCheat(provider, request, cheat))
  }
  return results
}

async function tryCheat(
  provider: SandboxProvider,
  request: Omit<TrialRequest, 'harness'>,
  { id, what, line, tries = 1 }: Cheat,
): Promise<CheatResult> {
  const harness = { ...shellCommand(`${carriedVariable(request.carried ?? [])}${line}`), id: `cheat:${id}` }
  for (let tried = 1; ; tried += 1) {
    const outcome = outcomeOf(await runTrial(provider, { ...request, harness }))
    if (outcome === 'won' || outcome === 'does_not_apply' || tried === tries) return { id, what, outcome, tries: tried }
  }
}

/** Shell that sets `$carried` to the paths outside the working directory that reach the tests, one on each line. */
const carriedVariable = (carried: readonly string[]): string =>
  `carried='${carried.join('\n').replaceAll("'", `'\\''`)}'\n`

function outcomeOf(record: TrialRecord): CheatResult['outcome'] {
  if (record.class === 'sandbox_error') throw new SandboxUnavailable(record.error ?? 'The sandbox broke.')
  if (record.state === 'passed') return 'won'
  if (record.steps.every(({ agent }) => agent?.code === DOES_NOT_APPLY)) return 'does_not_apply'
  return record.state === 'errored' ? 'errored' : 'lost'
}
