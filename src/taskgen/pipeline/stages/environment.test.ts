import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { commitTree, type HandmadeEntry, makeRepository } from '../../../../test/support/taskgen/handmade-trees.ts'
import type { ModelReply } from '../../../harnesses/conversation.ts'
import type { Json } from '../../../harnesses/json.ts'
import { openClone } from '../../../repos/mirror/local-clone.ts'
import { type ImageSource, type SandboxProvider, SandboxUnavailable } from '../../../sandboxes/sandbox.ts'
import type { ModelQuestion, StageModel } from '../../models/stage-model.ts'
import { reject, rejectForTiming } from '../../stage-result.ts'
import type { CandidateState, StageContext } from '../stage.ts'
import { attributeToMissingParts, environmentStage } from './environment.ts'

let root: string
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), 'assay-stage-'))
  await makeRepository(join(root, 'repository'))
})
afterAll(() => rm(root, { recursive: true, force: true }))

const signal = new AbortController().signal

const withPackages = (packages: string, code: string): HandmadeEntry[] => [
  { name: 'pyproject.toml', content: `[project]\nname = "a"\ndependencies = ${packages}\n` },
  { name: 'requirements-dev.txt', content: 'six\n' },
  { name: 'a.py', content: code },
  { name: 'test_a.py', content: `${code}import pytest\n` },
  { name: '.github', entries: [{ name: 'workflows', entries: [{ name: 'ci.yml', content: 'run: make check\n' }] }] },
]

const throwUnused = (): SandboxProvider => {
  throw new Error('Nothing of this may be built.')
}

/** Runs the stage with a model that always gives this recipe. Without a provider, nothing may be built. */
async function judged(packages: string, recipe: object, known?: Json, provider: () => SandboxProvider = throwUnused) {
  const repository = join(root, 'repository')
  const base = await commitTree(repository, withPackages(packages, 'A = 1\n'))
  const head = await commitTree(repository, withPackages(packages, 'A = 2\n'), base)
  await using clone = await openClone(repository, { signal })
  const reply: ModelReply = { stop: 'done', text: JSON.stringify(recipe), thought: '', calls: [], raw: [] }
  const questions: string[] = []
  const model = {
    ask: async (question: ModelQuestion) => {
      questions.push(JSON.stringify(question))
      return { kind: 'answered' as const, reply }
    },
    [Symbol.asyncDispose]: async () => {},
  } as Partial<StageModel> as StageModel
  const context = {
    folder: await mkdtemp(join(root, 'work-')),
    repository: async () => ({ location: clone.location, fetchBlobs: async () => {}, keep: () => {}, upstream: [] }),
    model: async () => model,
    recipes: { find: async () => known, save: async () => {} },
    provider,
  } as Partial<StageContext> as StageContext
  const result = await environmentStage.run({ candidate: { base, head } } as CandidateState, context, signal)
  return { result, questions }
}

const RECIPE = {
  base: 'debian:trixie-slim',
  aptPackages: [],
  env: [],
  manifests: [],
  setup: [],
  build: [],
  runner: 'pytest',
}

test.each([
  ['a dependency of two lines', String.raw`["b>=1\nRUN x"]`],
  ['a dependency with a comment', `["b>=1 # x"]`],
])('rejects %s that cannot be built', async (_, packages) => {
  const { result } = await judged(packages, { ...RECIPE, build: ['--network=host make'] })
  expect(result).toMatchObject({ kind: 'rejected', reason: 'env_build_failed' })
  expect(result).toMatchObject({
    detail: expect.stringMatching(/is not a single shell command line.*The recipe of a model failed too/s),
  })
})

test('a model that proposes a recipe receives the CI configuration', async () => {
  const { questions } = await judged(`["b>=1 # x"]`, { ...RECIPE, build: ['--network=host make'] })
  expect(questions[0]).toContain('run: make check')
})

test('a recipe of a model that worked before is tried before a model is asked', async () => {
  const tried = judged(`["b>=1 # x"]`, RECIPE, { ...RECIPE, env: {} })
  await expect(tried).rejects.toThrow('Nothing of this may be built.')
})

test('a known recipe that names files which this tree does not have is not tried', async () => {
  const { questions } = await judged(
    `["b>=1 # x"]`,
    { ...RECIPE, build: ['--network=host make'] },
    {
      ...RECIPE,
      env: {},
      manifests: ['requirements.txt'],
    },
  )
  expect(questions).toHaveLength(2)
})

/** Opens a provider with these base images, on which all builds fail. Adds the base of each build to `built`. */
function failingProvider(images: readonly string[], built: Set<string>): SandboxProvider {
  const provider: Partial<SandboxProvider> = {
    selfTest: async () => ({}) as Awaited<ReturnType<SandboxProvider['selfTest']>>,
    async prepare(source: ImageSource) {
      const isPulled = source.kind === 'prebuilt' && images.includes(source.name)
      if (isPulled) return { digest: 'sha256:0' } as Awaited<ReturnType<SandboxProvider['prepare']>>
      if (source.kind === 'dockerfile')
        built.add(/FROM (\S+)/.exec(await readFile(join(source.context, 'Dockerfile'), 'utf8'))?.[1] ?? '')
      throw new SandboxUnavailable('It ended with exit code 1.')
    },
  }
  return provider as SandboxProvider
}

const TRIXIE = 'debian:trixie-slim'
const BOOKWORM = 'debian:bookworm-slim'
const OLDER = 'python:3.9-slim-bookworm'

test.each([
  [
    'a tree for older versions is tried with an older Python after the first has failed',
    '<3.11',
    OLDER,
    [TRIXIE, OLDER],
  ],
  ['a tree for older versions is rejected on a machine that cannot pull an older Python', '<3.11', BOOKWORM, [TRIXIE]],
  ['a tree for newer versions is not tried with an older Python', '>=3.13', OLDER, [TRIXIE]],
])('%s', async (_, range, available, expected) => {
  const built = new Set<string>()
  const provider = failingProvider([TRIXIE, available], built)
  const { result } = await judged(`["b"]\nrequires-python = "${range}"`, RECIPE, undefined, () => provider)
  expect(result).toMatchObject({ kind: 'rejected', reason: 'env_build_failed' })
  expect([...built]).toEqual(expected)
})

const NOTHING = { unsupported: [], pointers: [] }
const MONGO = { unsupported: ['mongo:7: no such server is available here'], pointers: [] }
const MODEL = { unsupported: [], pointers: ['data/model.bin'] }
const FAILED = reject('suite_unhealthy', '1 of 20 tests pass.', { tried: 1 })

test.each([
  ['nothing', FAILED, NOTHING, 'suite_unhealthy'],
  ['a service', FAILED, MONGO, 'unsupported_service'],
  ['a service, in the words of a program', reject('needs_network', 'dial tcp'), MONGO, 'unsupported_service'],
  ['content in Git LFS', FAILED, MODEL, 'lfs_content_missing'],
  ['both', FAILED, { ...MONGO, pointers: MODEL.pointers }, 'unsupported_service'],
  ['a service that a failed build does not need', reject('env_build_failed', 'no pip'), MONGO, 'env_build_failed'],
  ['a service on a busy host', rejectForTiming('suite_unhealthy', 'Two runs disagree.'), MONGO, 'suite_unhealthy'],
] as const)('tests that lack %s are rejected as such', (_, result, missing, reason) => {
  const blamed = attributeToMissingParts(result, missing)
  expect(blamed).toMatchObject({ reason, detail: expect.stringContaining(result.detail) })
  expect('evidence' in blamed ? blamed.evidence : undefined).toBe(result.evidence)
})

test('a rejection names the service or the file that is missing', () => {
  expect(attributeToMissingParts(FAILED, MONGO)).toMatchObject({ detail: expect.stringContaining('mongo:7') })
  expect(attributeToMissingParts(FAILED, MODEL)).toMatchObject({ detail: expect.stringContaining('data/model.bin') })
})
