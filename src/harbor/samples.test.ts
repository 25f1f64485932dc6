import { readdir, readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import { openFolderSource } from './folder-source.ts'
import { readTask } from './read-task.ts'
import type { Task, TaskStep } from './task.ts'

const SAMPLES = fileURLToPath(new URL('../../samples/', import.meta.url))
const names = (await readdir(`${SAMPLES}tasks`)).toSorted()
const digests: Record<string, string> = JSON.parse(await readFile(`${SAMPLES}digests.json`, 'utf8'))
const readme = await readFile(`${SAMPLES}README.md`, 'utf8')

/** A task and the texts of its files. */
type ParsedSample = { task: Task; texts: Map<string, string> }

const anyStep =
  (holds: (step: TaskStep) => boolean) =>
  ({ task }: ParsedSample) =>
    task.steps.some(holds)
const inToml =
  (pattern: RegExp) =>
  ({ texts }: ParsedSample) =>
    pattern.test(texts.get('task.toml') ?? '')
const inAny =
  (file: RegExp, text: RegExp) =>
  ({ texts }: ParsedSample) =>
    [...texts].some(([path, content]) => file.test(path) && text.test(content))
const separate = ({ verifier: { sandbox } }: TaskStep) => sandbox.mode === 'separate'

const FEATURES: Record<string, (sample: ParsedSample) => boolean> = {
  'schema 1.0': inToml(/^version = "1\.0"/m),
  'schema 1.1': inToml(/^schema_version = "1\.1"/m),
  'schema 1.2': inToml(/^schema_version = "1\.2"/m),
  'schema 1.3': inToml(/^schema_version = "1\.3"/m),
  'schema 1.4': inToml(/^schema_version = "1\.4"/m),
  'old keys': inToml(/^(memory|storage|allow_internet) = /m),
  Dockerfile: ({ task }) => task.environment.dockerfile !== null,
  'multi-stage': inAny(/^environment\/Dockerfile$/, /^FROM [\s\S]*^FROM /m),
  compose: ({ task }) => task.environment.compose !== null,
  'prebuilt image': ({ task }) => task.environment.image !== null,
  healthcheck: ({ task }) =>
    task.environment.healthcheck !== null || task.steps.some((step) => step.healthcheck !== null),
  users: anyStep(({ agent, verifier }) => agent.user !== null || verifier.user !== null),
  env: ({ task }) =>
    [task.environment.env, task.solutionEnv, ...task.steps.map((step) => step.verifier.env)].flat().length > 0,
  resources: ({ task: { environment } }) =>
    environment.resources.cpus !== null || environment.resources.memoryMb !== null,
  workdir: ({ task }) => task.environment.workdir !== null,
  network: ({ task: { environment, steps } }) =>
    environment.network.mode !== 'undeclared' || steps.some(({ agent }) => agent.network.mode !== 'undeclared'),
  allowlist: ({ task }) => task.environment.network.mode === 'allowlist',
  artifacts: anyStep(({ artifacts }) => artifacts.length > 0),
  collect: anyStep(({ verifier }) => verifier.collect.length > 0),
  'shared verifier': anyStep((step) => !separate(step)),
  'separate verifier': anyStep(separate),
  'verifier image': anyStep(({ verifier }) => verifier.testScript === null),
  'reward.json': inAny(/test\.sh$/, /reward\.json/),
  steps: ({ task }) => task.steps[0].name !== null,
  'step files': anyStep(({ workdir }) => workdir !== null),
  'step setup': anyStep(({ setup }) => setup !== null),
  'min reward': anyStep(({ minReward }) => minReward.length > 0),
  'final reward': ({ task }) => task.rewardStrategy === 'final',
  mcp: ({ task }) => task.environment.mcpServers.length > 0,
  skills: ({ task }) => task.environment.skillsDir !== null,
  trajectory: anyStep(({ trajectory }) => trajectory !== null),
  canary: inAny(/instruction\.md$/, /canary/),
  'ignore file': ({ texts }) => texts.has('.gitignore'),
  python: ({ texts }) => [...texts.keys()].some((path) => path.endsWith('.py')),
  node: ({ texts }) => [...texts.keys()].some((path) => path.endsWith('.mjs')),
  go: ({ texts }) => [...texts.keys()].some((path) => path.endsWith('.go')),
  c: inAny(/solve\.sh$/, /\.c <</),
  perl: ({ texts }) => [...texts.keys()].some((path) => path.endsWith('.pl')),
}

/** | [name](…) | feature, feature | */
const listed = new Map(
  [...readme.matchAll(/^\| \[([\w-]+)\]\([^)]*\) \| ([^|]*) \|$/gm)].map(([, name = '', cell = '']) => [
    name,
    cell.split(', '),
  ]),
)

async function readSample(name: string): Promise<ParsedSample & { digest: string }> {
  const folder = `${SAMPLES}tasks/${name}`
  const { task, digest } = await readTask(await openFolderSource(folder))
  const paths = (await readdir(folder, { recursive: true, withFileTypes: true })).filter((entry) => entry.isFile())
  const texts = new Map<string, string>()
  for (const { parentPath, name: file } of paths) {
    const path = `${parentPath}/${file}`
    texts.set(path.slice(folder.length + 1), await readFile(path, 'utf8'))
  }
  return { task, digest, texts }
}

describe.each(names)('%s', (name) => {
  test('has an instruction, a timeout, tests and a solution for each step', async () => {
    const { task } = await readSample(name)

    expect(task.steps.every(({ instruction }) => instruction.trim() !== '')).toBe(true)
    expect(task.steps.every(({ solution }) => solution !== null)).toBe(true)
    expect(task.steps.every(({ agent }) => agent.timeoutSec !== null)).toBe(true)
    const scripts = task.files.filter(({ path }) => /\/(test|solve|setup)\.sh$/.test(path))
    expect(scripts.filter(({ executable }) => !executable)).toEqual([])
    expect(scripts.length).toBeGreaterThanOrEqual(2)
  })

  test('has the digest of Harbor', async () => {
    expect((await readSample(name)).digest).toBe(digests[name])
  })

  test('has exactly the features that the README lists', async () => {
    const sample = await readSample(name)
    const found = Object.keys(FEATURES).filter((feature) => FEATURES[feature]?.(sample))

    expect(listed.get(name)).toEqual(found)
  })
})

test('at least twenty samples are listed and together use every feature', () => {
  expect(names.length).toBeGreaterThanOrEqual(20)
  expect([...listed.keys()]).toEqual(names)
  expect(Object.keys(digests)).toEqual(names)
  expect(Object.keys(FEATURES).filter((feature) => ![...listed.values()].flat().includes(feature))).toEqual([])
})
