import { chmod, chown, mkdir, readdir, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { expect, test, vi } from 'vitest'
import { copyProject } from '../../../test/support/postgres/project-copy.ts'
import { type StarterOptions, spawnStarter } from '../../../test/support/postgres/starter-process.ts'
import { failingPrograms, query, temporaryFolder } from '../../../test/support/postgres/temporary-folder.ts'
import { findUnprivileged } from './folder.ts'
import { startPostgres } from './postgres.ts'

vi.setConfig({ testTimeout: 120_000 }) // real servers, on machines that may be busy

const NOBODY = { uid: 65534, gid: 65534 }
const asRoot = test.skipIf(process.getuid?.() !== 0)

asRoot('an ordinary user runs the server itself', async () => {
  await using project = await copyProject({ links: true })
  await chmod(project.root, 0o755)
  await using folder = await temporaryFolder()
  await mkdir(folder.path)
  await chown(folder.path, NOBODY.uid, NOBODY.gid)

  expect(await startAndStop(folder.path, { ...project, ...NOBODY })).toEqual({ started: folder.path })
  expect(await startAndStop(folder.path, { ...project, ...NOBODY })).toEqual({ started: folder.path })

  expect((await stat(join(folder.path, 'data'))).uid).toBe(NOBODY.uid)
  expect(await copies(folder.path)).toEqual([])
})

asRoot('an ordinary user who may not add the missing links gets a copy of the programs', async () => {
  await using project = await copyProject({ links: false })
  await chmod(project.root, 0o755)
  await using folder = await temporaryFolder()
  await mkdir(folder.path)
  await chown(folder.path, NOBODY.uid, NOBODY.gid)

  expect(await startAndStop(folder.path, { ...project, ...NOBODY })).toEqual({ started: folder.path })

  expect(await copies(folder.path)).toHaveLength(1)
})

asRoot('root without user namespaces runs it as another user, even in a folder closed to that user', async () => {
  await using project = await copyProject({ links: true }) // closed as well
  await using folder = await temporaryFolder('closed/postgres')
  await mkdir(dirname(folder.path), { mode: 0o700 })

  const env = await failing(dirname(folder.path), ['unshare'])
  expect(await startAndStop(folder.path, { ...project, env })).toEqual({ started: folder.path })

  expect((await stat(join(folder.path, 'data'))).uid).toBe((await findUnprivileged())?.uid)
})

asRoot('root with neither copies programs that the other user cannot reach', async () => {
  await using project = await copyProject({ links: true })
  await using folder = await temporaryFolder()
  await using programs = await temporaryFolder('.')

  const env = await failing(programs.path, ['unshare', 'setpriv'])
  expect(await startAndStop(folder.path, { ...project, env })).toEqual({ started: folder.path })

  expect(await copies(folder.path)).toHaveLength(1)
})

asRoot('root with neither, in a folder closed to the other user, is told what was tried', async () => {
  await using folder = await temporaryFolder('closed/postgres')
  await mkdir(dirname(folder.path), { mode: 0o700 })

  const env = await failing(dirname(folder.path), ['unshare', 'setpriv'])
  const { failed } = await startAndStop(folder.path, { env })

  expect(failed).toMatch(
    /user namespace: .*unshare is not permitted\n.*setpriv: .*\n.*user id .*cd.*\n(.*\n)*.*DATABASE_URL/,
  )
})

asRoot('data made one way starts every other way, also after the server was killed', async () => {
  await using folder = await temporaryFolder()
  await using programs = await temporaryFolder('.')
  await using more = await temporaryFolder('.')
  const first = await startPostgres({ folder: folder.path })
  await query(first.connection, 'create table kept as select 42 as answer')
  await first.stop()

  const environments = [
    await failing(programs.path, ['unshare']),
    await failing(more.path, ['unshare', 'setpriv']),
    process.env,
    await failing(programs.path, ['unshare']),
  ]
  for (const env of environments) {
    await using child = spawnStarter(folder.path, { env })
    expect(await child.hear()).toEqual({ started: folder.path })
    process.kill((await folder.postmaster()) ?? Number.NaN, 'SIGKILL')
  }

  const last = await startPostgres({ folder: folder.path })
  expect(await query(last.connection, 'select answer from kept')).toEqual([{ answer: 42 }])
  await last.stop()
})

test('the first start creates missing links', async () => {
  await using project = await copyProject({ links: false })
  await using one = await temporaryFolder()
  await using two = await temporaryFolder()

  const answers = await Promise.all([startAndStop(one.path, project), startAndStop(two.path, project)])

  expect(answers).toEqual([{ started: one.path }, { started: two.path }])
  expect(await readdir(join(project.binaries, 'native', 'lib'))).toContain('libpq.so.5')
  expect(await copies(one.path)).toEqual([])
})

async function startAndStop(folder: string, options: StarterOptions) {
  await using child = spawnStarter(folder, options)
  const answer = await child.hear()
  if (answer.failed) return answer
  child.tell('stop')
  expect(await child.hear()).toEqual({ stopped: true })
  return answer
}

const failing = async (folder: string, names: string[]) => ({
  ...process.env,
  PATH: `${await failingPrograms(folder, names)}:${process.env.PATH}`,
})

const copies = async (folder: string): Promise<string[]> =>
  (await readdir(folder)).filter((name) => name.startsWith('binaries-'))
