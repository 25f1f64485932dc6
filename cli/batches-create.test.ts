import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { createCredential } from '../src/credentials/schema.ts'
import { done } from '../src/taskgen/stage-result.ts'
import { assay, hasTerminal, onTerminal } from '../test/support/assay-command.ts'
import {
  type GenerationApp,
  type GenerationLab,
  openGenerationLab,
  startGenerationApp,
} from '../test/support/generating.ts'
import { temporaryFolder } from '../test/support/harbor/folders.ts'
import { createScriptedStages, doneAt } from '../test/support/taskgen/scripted-stages.ts'

let app: GenerationApp & AsyncDisposable
let lab: GenerationLab
let folder: Awaited<ReturnType<typeof temporaryFolder>>
let repo: string[]
beforeAll(async () => {
  app = await startGenerationApp()
  folder = await temporaryFolder()
  const stages = createScriptedStages({
    difficulty: (making) =>
      making.candidate.number === 1
        ? done({ ...doneAt('difficulty', making), concerns: ['It is long.'] })
        : (undefined as never),
  })
  lab = await openGenerationLab(app, { changes: { easy: 3, medium: 1, hard: 0 }, stages })
  repo = ['--repo', `lab/${lab.place.name}`]
})
// An offer that nobody repeats grows old.
beforeEach(() => lab.offer())
afterAll(async () => {
  await app[Symbol.asyncDispose]()
  await folder[Symbol.asyncDispose]()
})

const env = () => ({ ASSAY_URL: app.url, ASSAY_KEY: app.adminKey })
const run = (...args: string[]) => assay(['batches', ...args, ...repo], { env: env() })

async function madeBatch(...flags: string[]): Promise<string> {
  const created = await run('create', '--detach', '--again', ...flags)
  expect(created.code, created.err).toBe(0)
  await lab.work()
  return created.out.trim()
}

test('options and a preview are shown before anything is spent', async () => {
  const options = await run('options')
  expect(options.out).toMatch(/anthropic\/claude-opus-5-5 .* \$4 +\$20 +author/)
  expect(options.out).toMatch(/docker +no: No worker has this sandbox/)
  const preview = await run('preview', '--easy', '5')
  expect(preview.out).toMatch(/easy +3 +0 +5 +2 missing/)
  expect(preview.out).toContain('docs_only')
  expect(preview.out).toMatch(/^maximum model cost \$2\.40 for 3 candidates$/m)
  expect(JSON.parse((await run('preview', '--json')).out)).toMatchObject({ pullRequests: 5 })
})

test('creates, watches, lists, resumes and cancels a batch', async () => {
  const runId = await madeBatch(
    '--easy',
    '2',
    '--medium',
    '1',
    '--author',
    'anthropic/claude-sonnet-5',
    '--budget',
    '3',
  )
  expect(await lab.read(runId)).toMatchObject({
    state: 'completed',
    budgetUsd: 3,
    generation: { authorModel: 'anthropic/claude-sonnet-5' },
  })
  const watched = await run('watch', runId)
  expect(watched.code, watched.err).toBe(0)
  expect(watched.out).toMatch(/3\/3 completed, \$0\.00 of \$3\.00/)
  expect(watched.err).toContain(`assay batches review ${runId}`)
  expect((await run('list')).out).toContain(runId)
  expect((await run('resume', runId, '--budget', '9')).out).toContain('$9.00')
  const open = (await run('create', '--detach', '--again', '--easy', '1')).out.trim()
  expect((await run('cancel', open)).out).toContain('canceled')
  const failed = await run('watch', open)
  expect([failed.code, failed.err]).toEqual([1, expect.stringContaining('The batch is canceled.')])
})

test('reports wrong usage and starts nothing', async () => {
  expect((await run('create')).code).toBe(2)
  expect((await run('create', '--easy', 'x')).code).toBe(2)
  expect((await run('create', '--easy', '1', '--author', 'nobody/nothing')).err).toContain(
    'Unknown model nobody/nothing',
  )
  const many = await run('create', '--easy', '301')
  expect([many.code, many.err]).toEqual([1, expect.stringContaining('--easy')])
  expect((await run('watch', 'nonsense')).code).toBe(2)
})

test('tasks are shown, reviewed, edited, approved and exported', async () => {
  const runId = await madeBatch('--easy', '3')
  const tasks: { taskId: string; concerns: string[] }[] = await lab.tasks(runId)
  const doubted = tasks.find(({ concerns }) => concerns.length > 0)?.taskId ?? ''
  const fine = tasks.filter(({ taskId }) => taskId !== doubted).map(({ taskId }) => taskId)

  const shown = await run('show', runId, doubted)
  for (const text of [
    'It is long.',
    'Do as A change that is easy 1',
    'Solution: solution/solve.sh',
    'execution (',
    '#1 ',
  ])
    expect(shown.out).toContain(text)
  const reviewed = await run('review', runId)
  expect(reviewed.err).toContain('3 of 3')
  expect((await run('tasks', runId)).out).toMatch(new RegExp(`${doubted} +ready +easy +#1 +1 +-`))

  const text = join(folder.path, 'new.md')
  writeFileSync(text, 'Do it in another way.\n')
  const edited = await run('edit', runId, fine[0] ?? '', '--from', text)
  expect([edited.code, edited.err]).toEqual([0, expect.stringContaining('is making again')])
  await lab.work()
  expect(await lab.task(runId, fine[0] ?? '')).toMatchObject({ state: 'ready', instruction: 'Do it in another way.\n' })
  expect((await run('edit', runId, fine[0] ?? '', '--from', text)).err).toContain('No changes')
  expect((await run('edit', runId, fine[0] ?? '')).code).toBe(2)
  expect((await run('edit', runId, fine[0] ?? '', '--file', 'task.toml', '--from', text)).code).toBe(1)

  const approved = await run('approve', runId, '--all')
  expect(approved.err).toContain(`have warnings that must be reviewed first:\n  ${doubted}: It is long.\n`)
  expect(approved.err).toContain(`assay batches review ${runId} --repo`)
  expect(await lab.read(runId)).toMatchObject({ counts: { approved: 2 } })
  expect((await run('approve', runId, ...tasks.map(({ taskId }) => taskId))).err).toContain('task_not_green')
  expect((await run('approve', runId, doubted)).code).toBe(0)

  const to = join(folder.path, 'tasks')
  const exported = await run('export', runId, '--to', to, '--evidence')
  expect([exported.code, exported.err]).toEqual([0, expect.stringContaining('3 tasks')])
  expect(readFileSync(join(to, fine[0] ?? '', 'instruction.md'), 'utf8')).toBe('Do it in another way.\n')
  const known = JSON.parse(readFileSync(join(to, `${doubted}.json`), 'utf8'))
  expect(known).toMatchObject({
    batch: { runId, generation: { authorModel: expect.any(String) } },
    task: { taskId: doubted, pullRequest: { number: 1 }, digest: expect.any(String), concerns: ['It is long.'] },
  })
  expect(known.task.evidence.stages).toHaveLength(9)
  expect((await run('export', runId, '--to', to)).code).toBe(2)
})

test.runIf(hasTerminal)('asks about each task on a terminal', async () => {
  const runId = await madeBatch('--easy', '2')
  const answers = ['\r', '\u001b[B\r']
  let asked = 0
  const ended = await onTerminal(['batches', 'review', runId, ...repo], env(), (shown) => {
    if (shown.split('Quit').length - 1 <= asked) return undefined
    asked += 1
    return answers[asked - 1]
  })
  expect(ended.out).toContain('2 of 2')
  expect(await lab.read(runId)).toMatchObject({ counts: { approved: 1, declined: 1 } })
})

test.runIf(hasTerminal)('Ctrl-C ends the watch and the batch continues', async () => {
  const runId = (await run('create', '--detach', '--again', '--easy', '1')).out.trim()
  let isLeft = false
  const ended = await onTerminal(['batches', 'watch', runId, ...repo], env(), (shown) => {
    if (isLeft || !shown.includes('queued')) return undefined
    isLeft = true
    return '\u0003'
  })
  expect(ended.out).toContain('Still running in the background.')
  await lab.work()
  expect(await lab.read(runId)).toMatchObject({ state: 'completed' })
})

test('selects a verifier of another provider if only the author is named and a key is available', async () => {
  const made = async (author: string) => {
    const { out, err } = await run('create', '--detach', '--again', '--easy', '1', '--author', author)
    expect(err).toBe('')
    await run('cancel', out.trim())
    return (await lab.read(out.trim())).generation
  }
  const alone = await made('anthropic/claude-sonnet-5')
  expect(alone).toMatchObject({ verifierModel: expect.stringMatching(/^anthropic\//) })
  const secret = { apiKey: 'sk-0123456789abcdef0123' }
  const { body } = await app.call(createCredential, {
    body: { kind: 'model', provider: 'openai', name: 'Another house', secret },
  })
  const [one, other] = [await made('anthropic/claude-sonnet-5'), await made('openai/gpt-5.4')]
  expect(one).toMatchObject({ verifierModel: expect.stringMatching(/^openai\//), verifierCredentialId: body.id })
  expect(other).toMatchObject({ verifierModel: expect.stringMatching(/^anthropic\//), modelCredentialId: body.id })
})
