import { expect, test } from 'vitest'
import { createLogPrinter } from './operate-config.ts'

test('formats log lines with level, message, facts and error, and prints repeated lines once', () => {
  const lines: string[] = []
  const write = createLogPrinter((line) => lines.push(line))
  const away = JSON.stringify({
    level: 'warn',
    time: '2026-11-15T03:22:13.263Z',
    error: { type: 'AggregateError', message: '', code: 'ECONNREFUSED', stack: 'AggregateError\n  at …' },
    msg: 'waiting for the database',
  })
  for (const line of [away, away, away]) write(line)
  write(JSON.stringify({ level: 'info', time: 't', requestId: 'r1', status: 200, msg: 'request' }))
  write(JSON.stringify({ level: 'error', time: 't', error: 'text', msg: 'failed\u001b[2J' }))

  expect(lines).toEqual([
    'warn: waiting for the database: ECONNREFUSED\n',
    'info: request requestId=r1 status=200\n',
    'error: failed�[2J: text\n',
  ])
})
