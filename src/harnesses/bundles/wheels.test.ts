import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import { HarnessUnfit } from '../harness.ts'
import { pythonBundle, pythonCommand, type WheelLock } from './bundle.ts'
import { install } from './install.ts'

const FILE = 'made_up-1.0-py3-none-any.whl'
const PACK = `import sys, zipfile
info = 'made_up-1.0.dist-info/'
with zipfile.ZipFile(sys.argv[1], 'w') as wheel:
    wheel.writestr('made_up.py', 'def main():\\n    print("works")\\n')
    wheel.writestr(info + 'METADATA', 'Metadata-Version: 2.1\\nName: made-up\\nVersion: 1.0\\n')
    wheel.writestr(info + 'WHEEL', 'Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')
    wheel.writestr(info + 'RECORD', '')
`

const runs = (words: string[]): string | undefined => {
  try {
    return execFileSync('python3', words, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim()
  } catch {
    return undefined
  }
}
const pip = runs(['-m', 'pip', '--version'])

describe.skipIf(pip === undefined)('with pip', () => {
  let folder: string
  let wheel: Buffer
  const server = createServer((request, response) => {
    if (request.url?.endsWith('.whl')) return response.end(wheel)
    response.setHeader('content-type', 'text/html')
    return response.end(`<a href="/${FILE}">${FILE}</a>`)
  })
  beforeAll(async () => {
    await once(server.listen(0, '127.0.0.1'), 'listening')
  })
  afterAll(() => server.close())
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'assay-wheels-'))
    const path = join(folder, FILE)
    execFileSync('python3', ['-c', PACK, path])
    wheel = readFileSync(path)
    vi.stubEnv('PIP_INDEX_URL', `http://127.0.0.1:${(server.address() as AddressInfo).port}/simple/`)
    vi.stubEnv('PIP_FIND_LINKS', '')
    vi.stubEnv('PIP_NO_CACHE_DIR', '1')
    vi.stubEnv('PIP_RETRIES', '0')
  })
  afterEach(() => {
    vi.unstubAllEnvs()
    rmSync(folder, { recursive: true, force: true })
  })

  const lockFor = (sha256: string): WheelLock => ({
    package: 'made-up',
    version: '1.0',
    pythons: ['3.12', '3.13'],
    wheels: [{ path: 'any', name: 'made-up', version: '1.0', sha256 }],
  })
  const digest = (): string => createHash('sha256').update(wheel).digest('hex')
  const options = () => ({
    folder: join(folder, 'harnesses'),
    signal: new AbortController().signal,
    onProgress: () => {},
  })

  test('installs locked wheels read-only, and a program finds them without a variable', async () => {
    const [part] = await install(pythonBundle('made-up', lockFor(digest())), options())
    const module = join(part?.source ?? '', 'any/made_up.py')
    expect(statSync(module).mode & 0o777).toBe(0o555)
    const [program = '', ...words] = pythonCommand('made_up:main').map((word) =>
      word.replaceAll('/assay/bundle', part?.source ?? ''),
    )
    expect(execFileSync(program, words, { encoding: 'utf8', env: { PATH: process.env.PATH } })).toBe('works\n')
  })

  test('does not install a wheel that differs from the lock file', async () => {
    const installed = install(pythonBundle('made-up', lockFor('0'.repeat(64))), options())
    await expect(installed).rejects.toThrow(HarnessUnfit)
    expect(existsSync(options().folder) ? readdirSync(options().folder) : []).toEqual([])
  })

  test('reports a package that the index does not have', async () => {
    const lock = lockFor(digest())
    const missing = lock.wheels.map((each) => ({ ...each, version: '2.0' }))
    const installed = install(pythonBundle('made-up', { ...lock, wheels: missing }), options())
    await expect(installed).rejects.toThrow(/pip could not install made-up\. .*No matching distribution/)
  })
})

test('a bundle of wheels names the versions of Python that it runs with', () => {
  const lock = { package: 'made-up', version: '1.0', pythons: ['3.12', '3.13'], wheels: [] }
  const { needs, probe } = pythonBundle('made-up', lock)
  expect(needs).toContain('a python3 in the image, of version 3.12 or 3.13')
  expect(probe.at(-1)).toContain('["3.12","3.13"]')
})
