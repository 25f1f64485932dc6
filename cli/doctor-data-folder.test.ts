import { chmodSync, chownSync, mkdirSync, readdirSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import {
  assay,
  type CommandResult,
  type CommandVariables,
  findCheckLines,
  scratchFolder,
} from '../test/support/assay-command.ts'
import { startService } from '../test/support/service.ts'

const folder = scratchFolder()
afterAll(folder.remove)

/** Port 0: there is no service to ask. */
const doctor = (env: CommandVariables): Promise<CommandResult> =>
  assay(['doctor'], { env: { ASSAY_PORT: '0', ...env } })

test('reports a data folder that is a file or writable by everyone', async () => {
  const file = join(folder.path, 'file')
  writeFileSync(file, '')
  expect(findCheckLines(await doctor({ ASSAY_DATA: file }), 'data folder')).toMatch(
    /^✗ data folder {2}.* is not a folder\n/,
  )

  const open = join(folder.path, 'open')
  mkdirSync(open)
  chmodSync(open, 0o777)
  const ran = await doctor({ ASSAY_DATA: open })
  expect(ran.code).toBe(1)
  expect(findCheckLines(ran, 'data folder')).toBe(
    `✗ data folder  ${open} can be written by others (mode 0777)\n    fix: chmod 700 ${open}`,
  )
  chmodSync(open, 0o755)
  expect(findCheckLines(await doctor({ ASSAY_DATA: open }), 'data folder')).toMatch(/^– .* \(mode 0755\); /)
})

const NOBODY = 65_534
const isRoot = process.geteuid?.() === 0
/** A clone under a closed home cannot be run by another user. */
const nobodyCanRun = isRoot && parents(import.meta.dirname).every((path) => (statSync(path).mode & 0o005) === 0o005)

function parents(path: string): string[] {
  return path === '/' ? [path] : [path, ...parents(join(path, '..'))]
}

test.skipIf(isRoot && !nobodyCanRun)('reports a data folder that is not writable', async () => {
  const closed = join(folder.path, 'closed')
  mkdirSync(closed)
  chmodSync(closed, 0o500)
  if (isRoot) chownSync(closed, NOBODY, NOBODY)
  if (isRoot) chmodSync(folder.path, 0o755)
  const as = isRoot ? { uid: NOBODY, gid: NOBODY } : {}
  const env = { ASSAY_DATA: closed, ASSAY_PORT: '0', HOME: '/' }
  const ran = await assay(['doctor'], { env, cwd: '/', ...as })
  expect(ran.code, ran.err).toBe(1)
  expect(findCheckLines(ran, 'data folder')).toBe(
    `✗ data folder  ${closed} is not writable (mode 0500)\n    fix: chmod 700 ${closed}`,
  )
})

test.skipIf(!isRoot)('writes nothing into a data folder of another user', async () => {
  const foreign = join(folder.path, 'foreign')
  mkdirSync(join(foreign, 'blobs'), { recursive: true })
  chownSync(foreign, NOBODY, NOBODY)
  const ran = await doctor({ ASSAY_DATA: foreign })
  expect(ran.code).toBe(1)
  expect(findCheckLines(ran, 'data folder')).toMatch(
    / belongs to user 65534, and this is user 0\n {4}fix: Run assay as the owner/,
  )
  expect(findCheckLines(ran, 'blobs')).toMatch(/^– blobs {2}not checked/)
  expect(readdirSync(join(foreign, 'blobs'))).toEqual([])
})

test('passes before the first start and creates nothing', async () => {
  const fresh = join(folder.path, 'fresh')
  const ran = await doctor({ ASSAY_DATA: join(fresh, 'data'), ASSAY_PORT: '1' })
  expect(ran.code, ran.out).toBe(0)
  expect(findCheckLines(ran, 'data folder')).toMatch(/ does not exist yet; the first start creates it$/)
  expect(findCheckLines(ran, 'service')).toMatch(
    /^– service {2}nothing answers at http:\/\/127\.0\.0\.1:1\n {4}fix: Start it/,
  )
  expect(readdirSync(folder.path)).not.toContain('fresh')
})

test('does not start the database of a stopped service and changes no file', async () => {
  const stopped = join(folder.path, 'stopped')
  const other = await startService('serve', ['--data', stopped, '--port', '0'])
  await other.kill('SIGTERM')
  const before = tree(stopped)

  const ran = await doctor({ ASSAY_DATA: stopped, ASSAY_PORT: '1' })
  expect(ran.code, ran.out).toBe(0)
  expect(findCheckLines(ran, 'database')).toMatch(/^✓ database {2}not running; it starts with assay serve\. /)
  expect(findCheckLines(ran, 'master key')).toBe(`✓ master key  ${stopped}/secret.key, closed to others`)
  expect(tree(stopped)).toEqual(before)
})

const tree = (path: string): string[] =>
  readdirSync(path, { recursive: true, withFileTypes: true })
    .map((entry) => join(entry.parentPath, entry.name))
    .map((each) => `${each} ${statSync(each).mtimeMs}`)
    .sort()
