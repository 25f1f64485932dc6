import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { newKey } from '../../src/workspaces/key.ts'
import { buildAssayImage, docker, waitUntilHealthy } from '../support/docker-command.ts'
import { type Dockerd, startDockerd } from '../support/dockerd.ts'
import { importNodeImage } from '../support/node-image.ts'
import { hasPart, isLongRun } from '../support/parts.ts'

describe.runIf(isLongRun() && hasPart('docker'))('the container image', () => {
  let dockerd: Dockerd
  const key = newKey()
  const engine = (...args: string[]) => docker(dockerd, ...args)

  beforeAll(async () => {
    dockerd = await startDockerd()
    await importNodeImage(dockerd)
    await buildAssayImage(dockerd)
    const isolation = ['--read-only', '--tmpfs', '/tmp', '--cap-drop', 'ALL', '--security-opt', 'no-new-privileges']
    const environment = ['--env', `ASSAY_BOOTSTRAP_KEY=${key}`, '--env', `ASSAY_KEY=${key}`]
    const options = ['--network', 'none', '--volume', 'data:/var/lib/assay', '--health-interval', '1s']
    await engine('run', '--detach', '--name', 'assay', ...isolation, ...environment, ...options, 'assay')
  }, 1_800_000)

  afterAll(() => dockerd[Symbol.asyncDispose]())

  test('becomes healthy with a read-only root file system and no capability', async () => {
    await waitUntilHealthy(dockerd, 'assay')
  })

  test('does not run as root and does not contain the sources', async () => {
    expect(await engine('exec', 'assay', 'id', '-u')).toBe('10001')
    expect(
      await engine('exec', 'assay', 'find', '/opt/assay', '-name', '*.test.*', '-not', '-path', '*/node_modules/*'),
    ).toBe('')
    expect(await engine('exec', 'assay', 'find', '/opt/assay', '-user', 'assay')).toBe('')
  })

  test('answers its own command line', async () => {
    expect(JSON.parse(await engine('exec', 'assay', 'assay', '--json', 'orgs', 'show'))).toMatchObject({
      login: 'local',
    })
  })

  test('keeps its data in the volume and stops on SIGTERM', async () => {
    await engine('stop', '--time', '60', 'assay')
    expect(await engine('inspect', '--format', '{{.State.ExitCode}}', 'assay')).toBe('0')
    await engine('start', 'assay')
    await waitUntilHealthy(dockerd, 'assay')
    expect(JSON.parse(await engine('exec', 'assay', 'assay', '--json', 'keys', 'list'))).not.toEqual([])
    expect(await engine('logs', 'assay')).not.toContain('could not')
  })
})
