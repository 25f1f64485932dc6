import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { describe, expect, test } from 'vitest'
import { createLog } from './log.ts'

test('redacts fields with secret names up to two levels deep', () => {
  const lines: string[] = []
  const log = createLog('info', (line) => lines.push(line))
  log.info(
    { key: 'hush', headers: { authorization: 'hush', cookie: 'hush' }, a: { b: { secret: 'hush', fine: 'seen' } } },
    'x',
  )
  expect(lines.join()).not.toContain('hush')
  expect(lines.join()).toContain('seen')
})

test('logs only message, code, stack and cause of an error', () => {
  const lines: string[] = []
  const log = createLog('info', (line) => lines.push(line))
  const error = Object.assign(new Error('went wrong', { cause: new Error('because') }), { code: 'E1', query: 'hush' })
  log.error({ error }, 'x')
  expect(JSON.parse(lines[0] ?? '')).toMatchObject({
    level: 'error',
    error: { message: 'went wrong', code: 'E1', cause: { message: 'because' } },
  })
  expect(lines.join()).not.toContain('hush')
})

describe('on standard error', () => {
  const MODULE = new URL('log.ts', import.meta.url).href
  const program = (then: string) =>
    spawn(process.execPath, [
      ...['--input-type=module', '--eval'],
      `import { createLog } from '${MODULE}'
       const log = createLog('info')
       for (let n = 0; n < 1000; n++) log.info({ n }, 'a line')
       ${then}`,
    ])

  test.each([
    ['that ends', '', 0],
    ['that ends at once', 'process.exit(3)', 3],
    ['that breaks', "throw new Error('broken')", 1],
  ])('a program %s has written every line, in order', async (_, then, code) => {
    const child = program(then)
    const [said, [exitCode]] = await Promise.all([text(child.stderr), once(child, 'close')])
    const numbers = said.split('\n').flatMap((line) => (line.startsWith('{') ? [JSON.parse(line).n] : []))
    expect(numbers).toEqual(Array.from({ length: 1000 }, (_line, n) => n))
    expect(exitCode).toBe(code)
  })

  test('unread log lines use bounded memory, and a line reports how much was dropped', async () => {
    const child = program(`
      for (let n = 0; n < 250_000; n++) log.info({ n }, 'a line that nobody reads')
      console.log(process.memoryUsage().rss)
      setInterval(() => log.info('on we go'), 50)`)
    const [rss] = await once(child.stdout, 'data')
    expect(Number(rss)).toBeLessThan(250 * 1024 * 1024)
    let said = ''
    for await (const bytes of child.stderr) {
      said = `${said}${bytes}`.slice(-100_000)
      if (said.includes('"msg":"log lines dropped')) break
    }
    child.kill('SIGKILL')
  })

  test('writes a line while the program is still running', async () => {
    const child = program('setInterval(() => {}, 1000)')
    let said = ''
    for await (const bytes of child.stderr) {
      said += bytes
      if (said.includes('"n":999')) break
    }
    child.kill('SIGKILL')
  })
})
