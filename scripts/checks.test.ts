import { expect, test } from 'vitest'
import { listMissingPaths } from './doc-paths.ts'
import { listForeignLicences } from './licences.ts'
import { listProseFindings } from './prose.ts'
import { listSharedTables, listStrayQueries } from './queries.ts'
import { listLongFiles } from './sizes.ts'

/** Returns the paths and a read function of in-memory files. */
const tree = (files: Record<string, string>) => [Object.keys(files), (path: string) => files[path] ?? ''] as const

test('a file of more than 400 lines is too long, unless it is generated or a migration', () => {
  const files = {
    'src/a.ts': 'x\n'.repeat(400),
    'src/b.ts': 'x\n'.repeat(401),
    'src/b.gen.ts': 'x\n'.repeat(4000),
    'migrations/0001_a.sql': 'x\n'.repeat(4000),
  }
  expect(listLongFiles(...tree(files))).toEqual(['src/b.ts has 401 lines; the maximum is 400.'])
})

test.each([
  ["db.insertInto('jobs').values({})"],
  ["db\n  .updateTable('jobs')\n  .set({})"],
  ["tx.deleteFrom('jobs')"],
  ['sql`insert into jobs (id) values (1)`'],
  ['sql`update jobs set state = null`'],
  ['sql`delete from jobs where id = 1`'],
])('a table that two folders write is found: %s', (write) => {
  const files = { 'src/platform/jobs/sql.ts': "db.insertInto('jobs')", 'src/comparisons/sql.ts': write }
  const found = ['The table jobs is written in src/comparisons and in src/platform/jobs.']
  expect(listSharedTables(...tree(files))).toEqual(found)
})

test('a table that others only read, or that tests write, has one owner', () => {
  const files = {
    'src/workspaces/sql.ts': "db.insertInto('workspaces')",
    'src/credentials/sql.ts': "db.selectFrom('workspaces')",
    'src/credentials/credentials.test.ts': "db.insertInto('workspaces')",
  }
  expect(listSharedTables(...tree(files))).toEqual([])
})

test('a query outside of sql.ts is found, although it imports nothing', () => {
  const query = "db.selectFrom('workspaces').selectAll()"
  const files = {
    'src/platform/db/tables.gen.ts': 'export interface DB {\n  jobs: Jobs;\n  workspaces: Workspaces;\n}',
    'src/operate/operate.ts': query,
    'src/operate/doctor.ts': "pool.query('select count(*) from jobs')",
    'src/workspaces/sql.ts': query,
    'src/platform/db/migrate.ts': query,
    'src/workspaces/workspaces.test.ts': query,
    'src/store.ts': "pool.query('select 1')",
    'src/workspaces/keys.ts': "selectFrom(choices, 'of all jobs')",
  }
  expect(listStrayQueries(...tree(files))).toEqual([
    'src/operate/operate.ts contains a query. Move it to sql.ts of the folder that owns the table.',
    'src/operate/doctor.ts contains a query. Move it to sql.ts of the folder that owns the table.',
  ])
})

test('only production packages with a licence off the list are named', () => {
  const packages = {
    '': { license: 'Apache-2.0' },
    'node_modules/fine': { license: 'MIT' },
    'node_modules/choice': { license: '(GPL-3.0 OR MIT)' },
    'node_modules/tool': { license: 'GPL-3.0', dev: true },
    'node_modules/both': { license: 'MIT AND GPL-3.0' },
    'node_modules/bare': {},
  }
  expect(listForeignLicences(JSON.stringify({ packages }))).toEqual([
    'node_modules/both has the licence MIT AND GPL-3.0, which scripts/licences.ts does not list.',
    'node_modules/bare has the licence (none), which scripts/licences.ts does not list.',
  ])
})

test('paths that a page names must exist: in code, in blocks and in links', () => {
  const page = [
    'See `src/app.ts`, `src/gone.ts` and `src/<noun>/sql.ts`; `npm test` is no path.',
    '[here](language.md#words) [there](../LICENSE) [out](https://example.org/x) [lost](lost.md)',
    '```',
    'cli/gone.ts   a command',
    'src/platform/ the floor',
    '```',
  ].join('\n')
  const there = ['src/app.ts', 'src/platform/', 'docs/language.md', 'LICENSE']
  expect(listMissingPaths('docs/map.md', page, (path) => there.includes(path))).toEqual([
    'docs/map.md names cli/gone.ts, which does not exist.',
    'docs/map.md names src/gone.ts, which does not exist.',
    'docs/map.md names docs/lost.md, which does not exist.',
  ])
})

test('flags comments without a subject, vague or repeated type names and literal spreads, each above its limit only', () => {
  const files = {
    'src/a.ts':
      '/** What is left. */\n// Returns the rest.\ntype Wish = string\ntype Row = {}\nf({\n  ...{ a, b },\n})',
    'src/b.ts': '/**\n * Nothing that strangers wrote is run.\n */\nexport type Row = {}',
    'src/c.test.ts': '// Who reads this?\ntype Wish = string',
    'docs/d.md': '// What is this?',
  }
  const none = { flaggedCommentPercent: 0, vagueTypes: 0, uniqueTypePercent: 100, literalSpreads: 0 }
  const found = listProseFindings(...tree(files), none)
  expect(found.filter((line) => !line.startsWith('  '))).toEqual([
    expect.stringContaining('66.7 % of comments are flagged; the limit is 0.'),
    expect.stringContaining('1 types have a vague name; the limit is 0.'),
    expect.stringContaining('50.0 % of type names are unique; the limit is 100.'),
    expect.stringContaining('1 object literals are spread into a literal; the limit is 0.'),
  ])
  expect(found).toContain('  src/b.ts: Nothing that strangers wrote is run.')
  expect(found).toContain('  Wish: src/a.ts')
  expect(found).toContain('  Row: src/a.ts, src/b.ts')
  const loose = { flaggedCommentPercent: 67, vagueTypes: 1, uniqueTypePercent: 50, literalSpreads: 1 }
  expect(listProseFindings(...tree(files), loose)).toEqual([])
})
