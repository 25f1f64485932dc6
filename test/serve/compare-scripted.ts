import { randomUUID } from 'node:crypto'
import { vi } from 'vitest'
import { addModel } from '../../src/catalog/schema.ts'
import { inBenchmark } from '../../src/comparisons/schema.ts'
import { createCredential } from '../../src/credentials/schema.ts'
import { type ClientOptions, call } from '../../src/platform/http/client.ts'
import { CHAOS } from '../chaos/dataset.ts'
import { patientUser } from '../chaos/patient.ts'

const MODEL = 'custom/scripted'
const org = { org: 'local' }

/** Compares these harnesses with a scripted mock model on a dataset with one task. Returns the comparison. */
export async function compareScripted(at: ClientOptions, harnesses: string[]): Promise<string> {
  const setting = await addScriptedSetting(at, harnesses, 'local')
  // In sequence: that one program fits on the machine says nothing about the next.
  const id = randomUUID()
  await call(at, inBenchmark.create, { params: CHAOS, body: { id, ...setting, concurrency: 1 } })
  return id
}

/** Adds the benchmark and a scripted mock model. Returns the fields of a comparison that uses them in a sandbox. */
export async function addScriptedSetting(at: ClientOptions, harnesses: string[], sandbox: string) {
  await patientUser(at).addBenchmark()
  const model = { catalogId: MODEL, name: 'scripted-1', label: 'Scripted', protocol: 'openai-chat' as const }
  const facts = { reasoningLevels: ['high' as const], defaultReasoningLevel: 'high' as const }
  const prices = { input: 2, output: 10 }
  const baseUrl = 'https://scripted.example.com/v1'
  await call(at, addModel, { params: org, body: { ...model, ...facts, prices, baseUrl } })
  const secret = { apiKey: 'sk-0123456789abcdef' }
  const { body: credential } = await call(at, createCredential, {
    params: org,
    body: { kind: 'model', provider: MODEL, name: 'Script', secret },
  })
  const sandboxCredentialId = await vi.waitUntil(
    async () => {
      const { sandboxes } = (await call(at, inBenchmark.catalog, { params: CHAOS })).body
      return sandboxes.find(({ id, available }) => id === sandbox && available)?.credentials[0]?.id
    },
    { timeout: 120_000 },
  )
  const models = [{ catalogId: MODEL, credentialId: credential.id, harnesses, reasoningLevel: 'high' as const }]
  return { models, sandbox, sandboxCredentialId }
}
