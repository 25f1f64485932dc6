import { chmodSync, existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type TestApp, testApp } from '../test/support/app.ts'
import { assay, hasTerminal, onTerminal, scratchFolder } from '../test/support/assay-command.ts'
import { publishTwoSettings } from '../test/support/releases.ts'

const scratch = scratchFolder()
let app: TestApp
let env: Record<string, string>
beforeAll(async () => {
  app = await testApp()
  env = { ASSAY_URL: app.url, ASSAY_KEY: app.adminKey }
})
afterAll(async () => {
  await app[Symbol.asyncDispose]()
  scratch.remove()
})

const open = (...args: string[]) => assay(['open', ...args], { env })

test('without an argument it prints the address of the workspace app', async () => {
  expect(await open()).toMatchObject({ code: 0, out: `${app.url}/app/\n` })
  expect(JSON.parse((await open('--json')).out)).toEqual({ url: `${app.url}/app/` })
})

test('ids of trials, comparisons and releases, and names of repositories, lead to their pages', async () => {
  const { release, place } = await publishTwoSettings(app)
  const fullName = `${place.owner}/${place.name}`
  const read = async (...args: string[]) => JSON.parse((await assay([...args, '--json'], { env })).out)
  const { evaluations } = await read('comparisons', 'list', '--repo', fullName)
  const { trials } = await read('comparisons', 'trials', '--repo', fullName, evaluations[0].id)
  const pages = {
    [fullName]: `/app/repos/${fullName}`,
    [evaluations[0].id]: `/app/repos/${fullName}/comparisons/${evaluations[0].id}`,
    [trials[0].id]: `/app/trials/${trials[0].id}`,
    [release.releaseId]: `/results/${fullName}/releases/${release.releaseId}`,
  }
  for (const [id, path] of Object.entries(pages)) {
    expect(await open(id)).toMatchObject({ code: 0, out: `${app.url}${path}\n` })
    expect((await fetch(`${app.url}${path}`)).status, path).toBe(200)
  }
})

test('unknown ids and names are refused', async () => {
  expect(await open('0198c0de-0000-7000-8000-000000000000')).toMatchObject({
    code: 2,
    err: expect.stringContaining('no trial, comparison or release'),
  })
  expect(await open('lab/nothing')).toMatchObject({ code: 2, err: expect.stringContaining('no repository') })
  expect(await open('nonsense')).toMatchObject({ code: 2 })
})

test.runIf(hasTerminal)('on a terminal it starts the browser, unless --no-browser', async () => {
  const [browser, seen] = [join(scratch.path, 'browser'), join(scratch.path, 'seen')]
  writeFileSync(browser, `#!/bin/sh\necho "$1" > ${seen}\n`)
  chmodSync(browser, 0o755)
  const quiet = await onTerminal(['open', '--no-browser'], { ...env, BROWSER: browser }, () => undefined)
  expect({ code: quiet.code, started: existsSync(seen) }).toEqual({ code: 0, started: false })
  await onTerminal(['open'], { ...env, BROWSER: browser }, () => undefined)
  await expect.poll(() => existsSync(seen) && readFileSync(seen, 'utf8')).toBe(`${app.url}/app/\n`)
})
