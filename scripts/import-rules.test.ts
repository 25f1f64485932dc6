import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join, relative } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { ROOT } from './files.ts'

const DEPCRUISE = join(ROOT, 'node_modules/.bin/depcruise')
const CONFIG = join(ROOT, '.dependency-cruiser.cjs')

const config: { forbidden: { name: string }[] } = createRequire(import.meta.url)(CONFIG)

const FOLDERS: string[] = config.forbidden.flatMap(
  ({ name }) => /^([\w-]+)-imports-only-from-above$/.exec(name)?.[1] ?? [],
)

/** One entry per violation: the rule, the file that violates it, and its import. */
const BREAKS: [rule: string, from: string, to: string][] = [
  ...FOLDERS.flatMap((folder, place): [string, string, string][] => [
    ...FOLDERS.slice(place + 1).map((below): [string, string, string] => [
      `${folder}-imports-only-from-above`,
      `src/${folder}/reaches-for-${below}.ts`,
      `src/${below}/thing.ts`,
    ]),
    [`${folder}-imports-only-from-above`, `src/${folder}/reads-settings.ts`, 'src/config.ts'],
  ]),
  ['src-has-only-listed-folders', 'src/attic/box.ts', 'src/platform/thing.ts'],
  ['src-does-not-import-clients', 'src/results/asks-the-cli.ts', 'cli/keys.ts'],
  ['site-imports-only-pages', 'src/site/routes.ts', 'web/components/chart.ts'],
  ['program-does-not-import-tests', 'src/results/leans-on-tests.ts', 'test/support/app.ts'],
  ['no-cycles', 'src/results/egg.ts', 'src/results/hen.ts'],
  ['nothing-unresolved', 'src/results/hopes.ts', 'src/results/absent.ts'],
  ['program-does-not-import-dev-dependencies', 'src/results/measures.ts', 'autocannon'],
  ['contract-is-browser-safe', 'src/results/schema.ts', 'src/results/thing.ts'],
  ['contract-is-browser-safe', 'src/releases/schema.ts', 'node:fs'],
  ['contract-base-is-browser-safe', 'src/platform/http/page.ts', 'src/platform/db/db.ts'],
  ['contract-base-is-browser-safe', 'src/platform/http/client.ts', 'node:fs'],
  ['clients-import-only-the-contract', 'cli/results.ts', 'src/results/thing.ts'],
  ['clients-import-only-the-contract', 'cli/keys.ts', 'src/main.ts'],
  ['clients-import-only-the-contract', 'web/results/page.ts', 'src/platform/http/server.ts'],
  ['starters-import-only-the-contract-and-entry-points', 'cli/serve.ts', 'src/results/thing.ts'],
  ['starters-import-only-the-contract-and-entry-points', 'cli/operate-keys.ts', 'src/platform/db/db.ts'],
  ['engine-commands-import-only-entry-points', 'cli/trial.ts', 'src/trials/run-trial.ts'],
  ['demo-imports-only-the-format-of-keys', 'cli/demo.ts', 'src/results/thing.ts'],
  ['sql-stays-in-sql-files', 'src/results/asks.ts', 'kysely'],
  ['connections-are-made-in-platform', 'src/results/connects.ts', 'pg'],
  ['connections-are-made-in-platform', 'src/platform/jobs/connects.ts', 'pg'],
  ['a-table-has-one-owner', 'src/results/peeks.ts', 'src/releases/sql.ts'],
  ['a-table-has-one-owner', 'src/batches/peeks.ts', 'src/taskgen/pipeline/sql.ts'],
  ['a-platform-table-has-one-owner', 'src/platform/http/peeks.ts', 'src/platform/jobs/sql.ts'],
  ['sql-is-private-to-its-noun', 'src/app.ts', 'src/releases/sql.ts'],
  ['http-server-stays-in-platform', 'src/results/answers.ts', 'hono'],
  ['http-stays-in-routes', 'src/results/thinks-in-statuses.ts', 'src/platform/http/server.ts'],
  ['requests-go-out-through-platform', 'src/results/calls-out.ts', 'undici'],
  ['requests-go-out-through-platform', 'src/results/calls-out-plainly.ts', 'node:https'],
  ['routes-are-mounted-by-app', 'src/results/mounts.ts', 'src/releases/routes.ts'],
  ['decisions-are-pure', 'src/releases/aggregate.ts', 'src/releases/sql.ts'],
  ['decisions-are-pure', 'src/comparisons/plan.ts', 'node:fs'],
  ['no-utility-files-or-barrels', 'src/results/opens-drawer.ts', 'src/results/utils.ts'],
  ['no-utility-files-or-barrels', 'src/results/opens-folder.ts', 'src/platform/shared/thing.ts'],
  ['no-utility-files-or-barrels', 'src/results/opens-barrel.ts', 'src/platform/index.ts'],
]

/** Imports that the rules allow. None of these may be reported. */
const KEEPS: [from: string, to: string][] = [
  ['src/results/hen.ts', 'src/results/egg.ts'],
  ['src/results/thing.ts', 'src/releases/thing.ts'],
  ['src/catalog/schema.ts', 'zod'],
  ['src/catalog/schema.ts', 'src/workspaces/schema.ts'],
  ['src/workspaces/schema.ts', 'src/platform/http/endpoint.ts'],
  ['src/workspaces/schema.ts', 'src/platform/problem.ts'],
  ['src/platform/http/endpoint.ts', 'src/platform/problem.ts'],
  ['cli/keys.ts', 'src/workspaces/schema.ts'],
  ['cli/keys.ts', 'src/platform/http/client.ts'],
  ['cli/serve.ts', 'src/main.ts'],
  ['cli/operate-keys.ts', 'src/operate/operate.ts'],
  ['cli/trial.ts', 'src/trials/local-engine.ts'],
  ['cli/calibrate.ts', 'src/trials/local-engine.ts'],
  ['src/sandboxes/egress/egress.ts', 'node:http'],
  ['src/main.ts', 'src/app.ts'],
  ['src/app.ts', 'src/releases/routes.ts'],
  ['src/releases/routes.ts', 'src/platform/http/server.ts'],
  ['src/releases/thing.ts', 'src/releases/sql.ts'],
  ['src/releases/deep/thing.ts', 'src/releases/sql.ts'],
  ['src/releases/other.ts', 'src/releases/deep/sql.ts'],
  ['src/releases/thing.ts', 'src/platform/http/caller.ts'],
  ['src/releases/sql.ts', 'kysely'],
  ['src/releases/fingerprint.ts', 'node:crypto'],
  ['src/platform/db/db.ts', 'pg'],
  ['src/platform/postgres/session.ts', 'pg'],
  ['src/platform/http/server.ts', 'hono'],
  ['src/platform/outbound/outbound.ts', 'undici'],
  ['src/results/thing.test.ts', 'test/support/app.ts'],
  ['src/results/thing.test.ts', 'vitest'],
]

const tree = mkdtempSync(join(tmpdir(), 'assay-house-'))
let complaints: string[] = []

beforeAll(() => {
  for (const name of ['zod', 'kysely', 'pg', 'hono', 'undici']) writePackage(name, 'dependencies')
  for (const name of ['vitest', 'autocannon']) writePackage(name, 'devDependencies')
  write('package.json', JSON.stringify(manifest))
  for (const [from, targets] of importsByFile()) write(from, targets.map((to) => importLine(from, to)).join(''))
  const { stdout } = depcruise(tree, '-T', 'json', 'src', 'cli', 'web')
  complaints = JSON.parse(stdout).summary.violations.map((found: RuleViolation) => `${found.rule.name}: ${found.from}`)
})

afterAll(() => rmSync(tree, { recursive: true, force: true }))

test.each(config.forbidden.map(({ name }) => name))('detects a violation of %s', (name) => {
  const files = BREAKS.filter(([rule]) => rule === name).map(([, from]) => from)
  expect(files.length, 'The rule has no example in this test.').toBeGreaterThan(0)
  expect(files.filter((from) => !complaints.includes(`${name}: ${from}`))).toEqual([])
})

test('allows imports that follow the rules', () => {
  const breakers = new Set(BREAKS.map(([, from]) => from))
  const innocent = KEEPS.map(([from]) => from).filter((from) => !breakers.has(from))
  expect(complaints.filter((complaint) => innocent.includes(complaint.split(': ')[1] ?? ''))).toEqual([])
})

test('the repository violates no rule', () => {
  const { status, stdout, stderr } = depcruise(ROOT, 'src', 'cli', 'test', 'scripts')
  expect(status, stdout + stderr).toBe(0)
})

const depcruise = (cwd: string, ...args: string[]) =>
  spawnSync(process.execPath, [DEPCRUISE, '--config', CONFIG, ...args], {
    cwd,
    encoding: 'utf8',
    maxBuffer: 64 * 1024 * 1024,
  })

type RuleViolation = { rule: { name: string }; from: string }

const manifest: Record<string, Record<string, string>> = { dependencies: {}, devDependencies: {} }

function writePackage(name: string, kind: 'dependencies' | 'devDependencies'): void {
  manifest[kind] = { ...manifest[kind], [name]: '1.0.0' }
  write(`node_modules/${name}/package.json`, JSON.stringify({ name, version: '1.0.0', main: 'main.js' }))
  write(`node_modules/${name}/main.js`, '')
}

function importsByFile(): Map<string, string[]> {
  const edges = [...BREAKS.map(([, from, to]) => [from, to]), ...KEEPS]
  const files = new Map(
    edges
      .flatMap(([from = '', to = '']) => [from, to])
      .filter(isFile)
      .map((file) => [file, [] as string[]]),
  )
  files.delete('src/results/absent.ts')
  for (const [from = '', to = ''] of edges) files.get(from)?.push(to)
  return files
}

function isFile(name: string): boolean {
  return name.endsWith('.ts')
}

/** Uses type-only imports in half of the files, because the rules apply to types too. */
function importLine(from: string, to: string): string {
  const target = isFile(to) ? `./${relative(dirname(from), to)}`.replace('./..', '..') : to
  return from.length % 2 === 0 ? `import type { T } from '${target}'\n` : `import { t } from '${target}'\nt()\n`
}

function write(path: string, text: string): void {
  const file = join(tree, path)
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(file, text)
}
