import { readArtifacts } from './artifact.ts'
import { type Fields, isTable } from './fields.ts'
import { type AgentConfig, readAgent, readVerifier, type VerifierConfig } from './phase-config.ts'
import type { SchemaDefaults } from './schema-versions.ts'
import { readHealthcheck } from './settings.ts'
import type { Healthcheck, TaskArtifact, TaskStep } from './task.ts'

export type StepConfig = {
  name: string
  agent: AgentConfig
  verifier: VerifierConfig
  healthcheck: Healthcheck | null
  artifacts: TaskArtifact[]
  minReward: TaskStep['minReward']
}

const STEPS_MAX = 50

/** Reads `[[steps]]`. An empty list means a single-step task. */
export function readSteps(fields: Fields, defaults: SchemaDefaults): StepConfig[] {
  const seen = new Set<string>()
  const read = (inner: Fields): StepConfig => {
    const step = readStep(inner, defaults)
    const key = step.name.normalize('NFC').toUpperCase().toLowerCase()
    if (seen.has(key))
      inner.refuse('name', 'duplicate', 'Another step has this name, or one that differs only in case.')
    seen.add(key)
    return step
  }
  const steps = fields.tables('steps', read) ?? []
  if (steps.length > STEPS_MAX) fields.refuse('steps', 'too_many', `The limit is ${STEPS_MAX} steps.`)
  return steps.slice(0, STEPS_MAX)
}

function readStep(fields: Fields, defaults: SchemaDefaults): StepConfig {
  const name = fields.requiredText('name')
  if (!isStepName(name))
    fields.refuse('name', 'invalid_value', 'The name is not a valid folder name on every operating system.')
  return {
    name,
    agent: fields.section('agent', (inner) => readAgent(inner, null)),
    verifier: fields.section('verifier', (inner) => readVerifier(inner, defaults)),
    healthcheck: fields.table('healthcheck', readHealthcheck) ?? null,
    artifacts: readArtifacts(fields),
    minReward: readMinReward(fields),
  }
}

const RESERVED = /[<>:"/\\|?*\p{Cc}]/u
const DEVICE = /^(CON|PRN|AUX|NUL|CONIN\$|CONOUT\$|(?:COM|LPT)[1-9¹²³])$/i
const NAME_BYTES_MAX = 255

/** Tests whether a name is a valid folder name on every operating system. */
function isStepName(name: string): boolean {
  const [stem = ''] = name.split('.')
  if (name.trim() === '' || name === '.' || name === '..' || /[. ]$/.test(name)) return false
  return !RESERVED.test(name) && !DEVICE.test(stem.trimEnd()) && Buffer.byteLength(name) <= NAME_BYTES_MAX
}

/** Reads `min_reward`. A plain number applies to the reward called `reward`. */
function readMinReward(fields: Fields): TaskStep['minReward'] {
  if (!isTable(fields.value('min_reward'))) {
    const atLeast = fields.number('min_reward')
    return atLeast === undefined ? [] : [{ key: 'reward', atLeast }]
  }
  const read = (inner: Fields) => inner.keys().map((key) => ({ key, atLeast: inner.number(key) ?? 0 }))
  return fields.table('min_reward', read) ?? []
}
