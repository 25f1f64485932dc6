import { verifyWorkspace } from '../../src/releases/schema.ts'
import { connectRepository } from '../../src/repos/schema.ts'
import { OPERATOR_KEY, type TestApp } from './app.ts'
import { createReleaseClient, insertApprovedTasks, insertComparison, type SettingFixture } from './releases.ts'

/** A setting with the share of tasks that it solves and its cost per task. */
type DemoSetting = {
  id: string
  label: string
  provider: string
  accuracy: number
  usd: number
  seconds: number
}

const DEMO_SETTINGS: readonly DemoSetting[] = [
  demoSetting('anthropic/claude-sonnet-5|claude-code|high', 'Claude Sonnet 5', 0.71, 0.42, 370),
  demoSetting('openai/gpt-6-codex|codex|high', 'GPT-6 Codex', 0.73, 0.88, 482),
  demoSetting('anthropic/claude-sonnet-5|opencode|high', 'Claude Sonnet 5', 0.65, 0.47, 415),
  demoSetting('qwen/qwen-4-coder|qwen-code|medium', 'Qwen 4 Coder', 0.56, 0.09, 261),
  demoSetting('google/gemini-4-pro|gemini-cli|high', 'Gemini 4 Pro', 0.54, 0.31, 340),
  demoSetting('openai/gpt-6-mini|codex|medium', 'GPT-6 mini', 0.46, 0.11, 192),
  demoSetting('moonshot/kimi-k3|kimi-code|none', 'Kimi K3', 0.42, 0.06, 288),
  demoSetting('google/gemini-4-flash|gemini-cli|low', 'Gemini 4 Flash', 0.31, 0.05, 150),
  demoSetting('anthropic/claude-haiku-5|claude-code|none', 'Haiku 5', 0.35, 0.12, 161),
]

function demoSetting(id: string, label: string, accuracy: number, usd: number, seconds: number): DemoSetting {
  return { id, label, provider: id.split('/')[0] ?? '', accuracy, usd, seconds }
}

/** Deterministic noise between 0 and 1. */
function noise(...parts: (string | number)[]): number {
  let state = 2166136261
  for (const letter of parts.join(' ')) state = Math.imul(state ^ letter.charCodeAt(0), 16777619)
  state = Math.imul(state ^ (state >>> 15), 2246822507)
  state = Math.imul(state ^ (state >>> 13), 3266489909)
  return ((state ^ (state >>> 16)) >>> 0) / 2 ** 32
}

/** Results of a setting: easy tasks pass more often, and exactly the wanted share passes in the first attempt. */
function toCells({ id, accuracy }: DemoSetting, tasks: number, attempts: number): string {
  const ease = Array.from({ length: tasks }, (_, task) => 0.65 * noise('task', task) + 0.35 * noise(id, task))
  const passing = new Set(
    ease
      .map((value, task) => ({ value, task }))
      .sort((a, b) => b.value - a.value)
      .slice(0, Math.round(accuracy * tasks))
      .map(({ task }) => task),
  )
  const row = (attempt: number) =>
    ease.map((_, task) => (passing.has(task) === noise(id, task, attempt) > (attempt === 0 ? -1 : 0.12) ? 'p' : 'f'))
  return Array.from({ length: attempts }, (_, attempt) => row(attempt).join('')).join(',')
}

const toFixture = (setting: DemoSetting, tasks: number, attempts: number): SettingFixture => ({
  id: setting.id,
  label: setting.label,
  provider: setting.provider,
  cells: toCells(setting, tasks, attempts),
  micros: Math.round(setting.usd * 1_000_000),
  seconds: setting.seconds,
  usage: {
    input: Math.round(setting.usd * 20_000),
    cacheRead: Math.round(setting.usd * 90_000),
    cacheWrite: Math.round(setting.usd * 9000),
    output: Math.round(setting.usd * 12_000),
    reasoning: Math.round(setting.usd * 4000),
  },
})

/** Results of nine settings, as a comparison would have stored them. */
export const createDemoFixtures = (tasks: number, attempts: number): SettingFixture[] =>
  DEMO_SETTINGS.map((setting) => toFixture(setting, tasks, attempts))

/** Connects a public repository with approved tasks to a workspace of the owner, whom the operator has verified. */
async function openDemoRepository(app: TestApp, [owner, name]: [string, string], tasks: number, workspaceKey?: string) {
  const { pool } = app.database
  const source = { kind: 'git', url: `https://git.example.org/${owner}/${name}.git` } as const
  const params = { org: owner, owner, name }
  const key = workspaceKey ?? (await app.otherWorkspace(owner)).key
  await app.call(verifyWorkspace, { params: { login: owner }, key: OPERATOR_KEY })
  await app.call(connectRepository, { params, key, body: { source, visibility: 'public' } })
  const { rows } = await pool.query('select key, workspace_id from repositories where owner = $1 and name = $2', [
    owner,
    name,
  ])
  const digests = await insertApprovedTasks(pool, rows[0].key, tasks, 'environment/example.py')
  const where = { workspaceId: rows[0].workspace_id, repository: rows[0].key, owner, name, digests }
  return {
    ...createReleaseClient(app, { owner, name }, { org: owner, key }),
    key,
    path: `/results/${owner}/${name}`,
    run: (settings: readonly DemoSetting[], attempts = 3) =>
      insertComparison(
        pool,
        where,
        settings.map((setting) => toFixture(setting, tasks, attempts)),
      ),
  }
}

/** Changes the day of a release, as if it had been published then. */
async function dateRelease(
  { pool }: TestApp['database'],
  release: { releaseId: string; releasedAt: string },
  day: string,
) {
  const at = `${day}T09:00:00.000Z`
  const values = [at, release.releaseId, release.releasedAt, at]
  await pool.query('update releases set released_at = $1, document = replace(document, $3, $4) where id = $2', values)
  await pool.query(
    `update result_lines set released_at = $1, card = replace(card, $3, $4), line = replace(line, $3, $4)
     where release_id = $2`,
    values,
  )
}

/** Owners of the demo repositories, for `ASSAY_PUBLIC_OWNERS`. */
export const DEMO_OWNERS = 'pallets=pallets,psf=psf,encode=encode'

/**
 * Publishes realistic results through the API: three repositories of three publishers, one with two releases and an
 * earlier one that was withdrawn.
 */
export async function publishDemo(app: TestApp) {
  const shift = (by: number, scale: number) =>
    DEMO_SETTINGS.map((each, index) => ({
      ...each,
      accuracy: Math.min(0.95, Math.max(0.05, each.accuracy + by * (index % 3 === 0 ? 1 : -0.4))),
      usd: each.usd * scale,
    }))
  const httpx = await openDemoRepository(app, ['encode', 'httpx'], 24)
  await httpx.run(shift(0.12, 0.6).slice(0, 6), 1)
  await dateRelease(app.database, (await httpx.publishAll()).body, '2026-10-30')
  const requests = await openDemoRepository(app, ['psf', 'requests'], 12)
  await requests.run(shift(-0.1, 1.4).slice(2), 1)
  await dateRelease(app.database, (await requests.publishAll()).body, '2026-11-02')
  const flask = await openDemoRepository(app, ['pallets', 'flask'], 48)
  await flask.run(DEMO_SETTINGS.slice(3))
  const { body: withdrawn } = await flask.publishAll()
  await dateRelease(app.database, withdrawn, '2026-09-28')
  await flask.withdraw(withdrawn.releaseId, 'Two tasks accepted an empty patch.')
  await flask.run(DEMO_SETTINGS.slice(2, 3))
  const { body: first } = await flask.publishAll()
  await dateRelease(app.database, first, '2026-10-12')
  await flask.run(DEMO_SETTINGS.slice(0, 2))
  const { body: second } = await flask.publishAll()
  await dateRelease(app.database, second, '2026-11-09')
  return { flask, requests, httpx, releases: { withdrawn, first, second } }
}
