import { runSuite } from '../../grading/run-suite.ts'
import { cpuSecondsOf, type RunPlan, type ServicePlan, type SuiteOutcome, type SuiteRun } from '../../grading/suite.ts'
import { GENERATED_LIMITS } from '../../harbor/limits.ts'
import type { Image, SandboxProvider } from '../../sandboxes/sandbox.ts'
import { done, reject, rejectForTiming, type StageRejection, type StageResult } from '../stage-result.ts'

type HealthCheckOptions = {
  image: Image
  runner: string
  prepare: readonly string[]
  services?: ServicePlan | undefined
  /** Folder on this machine for output. */
  folder: string
  rules?: HealthRules
}

/** CPU and memory limits of every test run. */
export const SUITE_LIMITS = { cpus: GENERATED_LIMITS.cpus, memoryMb: GENERATED_LIMITS.memoryMb } as const

const SUITE_SECONDS_MAX = 600

/** Runs all tests of the base twice, without a network. Throws SandboxUnavailable. */
export async function checkHealth(
  provider: SandboxProvider,
  { image, runner, prepare, services, folder, rules }: HealthCheckOptions,
  signal: AbortSignal,
): Promise<StageResult<Health>> {
  const plan: RunPlan = { runner, prepare: [...prepare], targets: [], timeoutSec: SUITE_SECONDS_MAX, services }
  const input = { image, submission: null, hidden: null, plan, seed: null, folder, ...SUITE_LIMITS }
  const first = await runSuite(provider, input, signal)
  // A broken run is not repeated.
  const second = first.kind === 'broken' ? first : await runSuite(provider, input, signal)
  const health = judgeHealth(first, second, rules)
  return 'kind' in health ? health : done(health)
}

/** Minimum number of tests, share of them that must pass, and share with the same status in both runs. */
const DEFAULT_RULES = { testsMin: 10, passedShareMin: 0.85, agreedShareMin: 0.99 } as const

type HealthRules = { testsMin: number; passedShareMin: number; agreedShareMin: number }

/** A suite that can be used. `tests` and `passed` are counts of the first run, the times those of the longer run. */
type Health = { tests: number; passed: number; seconds: number; cpuSeconds: number }

/** Messages of programs that fail without a network. */
const OFFLINE_MESSAGES = [
  /name resolution|getaddrinfo|Name or service not known|nodename nor servname|Could not resolve host/i,
  /dns error|failed to lookup address|UnknownHostException|ENOTFOUND|EAI_AGAIN/i,
  /Network is unreachable|ENETUNREACH|No route to host|dial tcp|Max retries exceeded|ConnectTimeout/i,
]
const mentionsNetwork = (text: string): boolean => OFFLINE_MESSAGES.some((pattern) => pattern.test(text))

const DETAIL_LENGTH_MAX = 4000
const MESSAGES_MAX = 5
const MESSAGE_LENGTH_MAX = 600

/** Decides from two offline runs of the whole suite on the base whether the suite can be used. */
export function judgeHealth(
  first: SuiteOutcome,
  second: SuiteOutcome,
  rules: HealthRules = DEFAULT_RULES,
): Health | StageRejection {
  if (first.kind === 'broken') return rejectBrokenSuite(first)
  if (second.kind === 'broken') return rejectBrokenSuite(second)
  return judgeRuns(first.run, second.run, rules)
}

function rejectBrokenSuite({ reason, detail }: Extract<SuiteOutcome, { kind: 'broken' }>): StageRejection {
  if (reason === 'timeout') return rejectForTiming('suite_too_slow', detail.slice(-DETAIL_LENGTH_MAX))
  return reject(
    mentionsNetwork(detail) ? 'needs_network' : 'suite_unhealthy',
    `${reason}: ${detail.slice(-DETAIL_LENGTH_MAX)}`,
  )
}

function judgeRuns(first: SuiteRun, second: SuiteRun, { testsMin, passedShareMin, agreedShareMin }: HealthRules) {
  // Skipped tests are not counted.
  const counted = Object.entries(first.statuses).filter(([, status]) => status !== 'skipped')
  const failed = counted.filter(([, status]) => status !== 'passed').map(([id]) => id)
  const passed = counted.length - failed.length
  if (counted.length < testsMin)
    return reject('suite_unhealthy', `The suite has ${counted.length} tests; at least ${testsMin} are required.`)
  if (passed < counted.length * passedShareMin) {
    const failedOffline = failed.filter((id) => mentionsNetwork(first.messages[id] ?? ''))
    const isNetworkNeeded = passed + failedOffline.length >= counted.length * passedShareMin
    const detail = `${passed} of ${counted.length} tests pass. ${failed.slice(0, 5).join(', ')}\n${describeMessages(failed, first)}`
    return reject(isNetworkNeeded ? 'needs_network' : 'suite_unhealthy', detail.slice(0, DETAIL_LENGTH_MAX))
  }
  const ids = new Set([...Object.keys(first.statuses), ...Object.keys(second.statuses)])
  const differing = [...ids].filter((id) => first.statuses[id] !== second.statuses[id])
  if (ids.size - differing.length < ids.size * agreedShareMin)
    return rejectForTiming('suite_unhealthy', `Two runs disagree on ${differing.length} of ${ids.size} tests.`)
  const seconds = Math.max(first.seconds, second.seconds)
  return { tests: counted.length, passed, seconds, cpuSeconds: Math.max(cpuSecondsOf(first), cpuSecondsOf(second)) }
}

/**
 * Lists the distinct messages of failed tests, the most frequent first, each with its count. A broken environment fails
 * many tests for one reason, and that reason says what is missing.
 */
function describeMessages(failed: readonly string[], { messages }: SuiteRun): string {
  const counts = new Map<string, number>()
  for (const id of failed) {
    const message = shortenMessage(messages[id] ?? '')
    if (message !== '') counts.set(message, (counts.get(message) ?? 0) + 1)
  }
  return [...counts]
    .toSorted(([, one], [, other]) => other - one)
    .slice(0, MESSAGES_MAX)
    .map(([message, count]) => `${count} tests: ${message}`)
    .join('\n')
}

/** Keeps the beginning and the end: runners print the error at one of them, and the stack trace in between. */
function shortenMessage(message: string): string {
  const text = message.replaceAll(/[ \t]+/g, ' ').trim()
  if (text.length <= MESSAGE_LENGTH_MAX) return text
  return `${text.slice(0, MESSAGE_LENGTH_MAX / 2)} … ${text.slice(-MESSAGE_LENGTH_MAX / 2)}`.toWellFormed()
}
