import { setTimeout as wait } from 'node:timers/promises'
import { addBenchmark } from '../../src/benchmarks/schema.ts'
import { inBenchmark } from '../../src/comparisons/schema.ts'
import type { Comparison, ComparisonTrial } from '../../src/comparisons/shapes/schema.ts'
import { type ClientOptions, call, ProblemReceived, ServiceUnreachable } from '../../src/platform/http/client.ts'
import { CHAOS } from './dataset.ts'

const AGAIN_MS = 50
const PATIENCE_MS = 120_000

/** Retries until there is a response. All of these requests are idempotent. */
async function patiently<T>(ask: () => Promise<T>): Promise<T> {
  const deadline = Date.now() + PATIENCE_MS
  for (;;) {
    try {
      return await ask()
    } catch (error) {
      if (!isPassing(error) || Date.now() > deadline) throw error
      await wait(AGAIN_MS)
    }
  }
}

/** Returns true for a lost or refused connection, or a response that is marked as retryable. */
const isPassing = (error: unknown): boolean =>
  error instanceof ProblemReceived
    ? error.problem.retryable
    : error instanceof ServiceUnreachable || error instanceof TypeError

type PatientRequest = { id: string; attempts: number; sandbox?: string }

/** A user who compares the reference solution with the no-op and retries while the service is down. */
export function patientUser(options: ClientOptions) {
  const at = (comparisonId: string) => ({ params: { ...CHAOS, comparisonId } })
  const catalog = async () => (await patiently(() => call(options, inBenchmark.catalog, { params: CHAOS }))).body
  return {
    async addBenchmark(): Promise<void> {
      const reference = `${CHAOS.datasetOrg}/${CHAOS.dataset}`
      await patiently(() => call(options, addBenchmark, { params: CHAOS, body: { reference } }))
    },
    async create({ id, attempts, sandbox = 'local' }: PatientRequest): Promise<void> {
      const { models, sandboxes } = await catalog()
      const [model] = models
      const offered = sandboxes.find((candidate) => candidate.id === sandbox)
      const [credential, place] = [model?.credentials[0], offered?.credentials[0]]
      if (!model || !credential || !place) throw new Error(`The catalog has no reference or no sandbox ${sandbox}.`)
      const settings = [{ catalogId: model.catalogId, credentialId: credential.id, harnesses: ['oracle', 'nop'] }]
      const body = { id, attempts, models: settings, sandbox, sandboxCredentialId: place.id }
      await patiently(() => call(options, inBenchmark.create, { params: CHAOS, body }))
    },
    read: async (id: string): Promise<Comparison> =>
      (await patiently(() => call(options, inBenchmark.read, at(id)))).body,
    async trials(id: string): Promise<ComparisonTrial[]> {
      const all: ComparisonTrial[] = []
      let cursor: string | null = null
      do {
        const query: { limit: number; cursor: string | undefined } = { limit: 200, cursor: cursor ?? undefined }
        const { body } = await patiently(() => call(options, inBenchmark.trials, { ...at(id), query }))
        all.push(...body.trials)
        cursor = body.nextCursor
      } while (cursor !== null)
      return all
    },
  }
}

export type PatientUser = ReturnType<typeof patientUser>
