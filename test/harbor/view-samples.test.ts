import { cpSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { newKey } from '../../src/workspaces/key.ts'
import { assay } from '../support/assay-command.ts'
import { baseImages, startDockerd } from '../support/dockerd.ts'
import { startHarborView } from '../support/harbor-program.ts'
import { PACKAGE_RANGES } from '../support/package-hosts.ts'
import { startService } from '../support/service.ts'
import { freePort } from '../support/system-postgres.ts'

const SAMPLES = new URL('../../samples/tasks', import.meta.url).pathname
const names = readdirSync(SAMPLES)
/** Long run only: it builds every sample. */
const isLong = process.env.ASSAY_TEST_LONG !== undefined

const folder = mkdtempSync(join(tmpdir(), 'assay-view-samples-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

test.runIf(isLong)(
  'a comparison on all samples is exported, opened by `harbor view` and imported with the same results',
  async () => {
    cpSync(SAMPLES, join(folder, 'registry/lab/samples'), { recursive: true, verbatimSymlinks: true })
    await using dockerd = await startDockerd({ images: await baseImages() })
    const key = newKey()
    const service = await startService('serve', ['--port', String(await freePort())], {
      ASSAY_DATA: join(folder, 'data'),
      ASSAY_BOOTSTRAP_KEY: key,
      ASSAY_REGISTRIES: `dir:${join(folder, 'registry')}`,
      ASSAY_SANDBOXES: 'docker',
      ASSAY_BUILD_HOSTS: PACKAGE_RANGES.length > 0 ? PACKAGE_RANGES.join(',') : undefined,
      DOCKER_HOST: `unix://${dockerd.socket}`,
    })
    await using undo = new AsyncDisposableStack()
    undo.defer(async () => void (await service.kill('SIGTERM')))
    const command = async (...args: string[]): Promise<string> => {
      const { code, out, err } = await assay(args, { env: { ASSAY_URL: service.url, ASSAY_KEY: key } })
      expect(code, `assay ${args.join(' ')}\n${err}`).toBe(0)
      return out
    }
    await command('benchmarks', 'add', 'lab/samples')
    const id = crypto.randomUUID()
    await command('compare', 'lab/samples', '--id', id, '--harness', 'oracle,nop', '--yes')
    const job = join(folder, 'jobs/samples')
    await command('comparisons', 'export', 'lab/samples', id, '--harbor', job)

    await using view = await startHarborView(join(folder, 'jobs'))
    // biome-ignore lint/suspicious/noExplicitAny: the shapes of another program's API
    const read = async (path: string): Promise<any> => {
      const answer = await fetch(`${view.url}/api/jobs${path}`)
      expect(answer.status, path).toBe(200)
      return answer.json()
    }
    const { items, total } = await read('/samples/trials?page_size=100')
    expect(total).toBe(2 * names.length)
    type ViewedTrial = { name: string; task_name: string; agent_name: string; reward: number | null }
    const rewards = items.map(({ task_name: task, agent_name: agent, reward }: ViewedTrial) => [task, agent, reward])
    const expected = names.flatMap((name) => [
      [`lab/${name}`, 'nop', 0],
      [`lab/${name}`, 'oracle', 1],
    ])
    expect(rewards.sort()).toEqual(expected.sort())
    for (const { name } of items as ViewedTrial[]) await read(`/samples/trials/${name}/verifier-output`)

    const imported = JSON.parse((await assay(['import', 'harbor-job', job, '--json'])).out)
    expect(imported.settings).toMatchObject([
      { settingId: 'reference|oracle|none', tasks: names.length, passed: names.length },
      { settingId: 'reference|nop|none', tasks: names.length, passed: 0 },
    ])
  },
)
