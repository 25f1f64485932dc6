import { expect, test } from 'vitest'
import { createLog } from './log.ts'

test('a secret under a telling name is blanked, up to two levels deep', () => {
  const lines: string[] = []
  const log = createLog('info', (line) => lines.push(line))
  log.info(
    { key: 'hush', headers: { authorization: 'hush', cookie: 'hush' }, a: { b: { secret: 'hush', fine: 'seen' } } },
    'x',
  )
  expect(lines.join()).not.toContain('hush')
  expect(lines.join()).toContain('seen')
})

test('of an error only what helps is written', () => {
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
