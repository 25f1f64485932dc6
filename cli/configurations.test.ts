import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { assay } from '../test/support/assay-command.ts'
import { openModelComparisonLab } from '../test/support/model-comparing.ts'

let lab: Awaited<ReturnType<typeof openModelComparisonLab>>
const folder = mkdtempSync(join(tmpdir(), 'assay-configurations-'))
beforeAll(async () => {
  lab = await openModelComparisonLab(async () => ({}))
})
afterAll(async () => {
  await lab[Symbol.asyncDispose]()
  rmSync(folder, { recursive: true, force: true })
})

const run = (...args: string[]) => assay(args, { env: { ASSAY_URL: lab.app.url, ASSAY_KEY: lab.app.adminKey } })
const write = (path: string, text: string | Uint8Array) => {
  mkdirSync(join(folder, path, '..'), { recursive: true })
  writeFileSync(join(folder, path), text)
  return join(folder, path)
}

test('creates, lists, shows and compares configurations', async () => {
  const path = write('AGENTS.md', 'Run the tests.\n')
  const first = await run('configurations', 'create', 'agents-md', path, '--prefix', 'Hello.')
  expect([first.code, first.out, first.err]).toEqual([0, 'agents-md@1\n', 'Created configuration agents-md@1.\n'])
  const again = await run('configurations', 'create', 'agents-md', path, '--prefix', 'Hello.')
  expect([again.out, again.err]).toEqual(['agents-md@1\n', 'Using configuration agents-md@1.\n'])
  write('AGENTS.md', 'Run the tests.\nBe brief.\n')
  write('skills/review/run.sh', 'true\n')
  write('skills/.git/config', 'left out\n')
  chmodSync(join(folder, 'skills/review/run.sh'), 0o755)
  const options = write(
    'options.json',
    JSON.stringify({ mcpServers: [{ name: 'words', command: ['node', 'words.mjs'] }], harnesses: { codex: {} } }),
  )
  const second = await run('configurations', 'create', 'agents-md', path, join(folder, 'skills'), '--options', options)
  expect([second.code, second.out]).toEqual([0, 'agents-md@2\n'])

  expect((await run('configurations', 'list')).out).toMatch(
    /^agents-md@2 +2 +30 +sha256:[0-9a-f]{12} +\S+\nagents-md@1 +1 +15 /m,
  )
  const shown = (await run('configurations', 'show', 'agents-md')).out
  expect(shown).toMatch(/^file +review\/run\.sh \(5 bytes\)$/m)
  expect(shown).toMatch(/^mcp server +words: node words\.mjs$/m)
  expect((await run('configurations', 'show', 'agents-md@1', '--file', 'AGENTS.md')).out).toBe('Run the tests.\n')
  const json = JSON.parse((await run('--json', 'configurations', 'show', 'agents-md@2')).out)
  expect(json.files).toMatchObject([{ path: 'AGENTS.md' }, { path: 'review/run.sh', executable: true }])

  const { out } = await run('configurations', 'diff', 'agents-md@1', 'agents-md@2')
  expect(out).toContain('--- agents-md@1/AGENTS.md')
  expect(out).toContain('+Be brief.\n')
  expect(out).toContain('-Hello.\n')
  expect(out).toContain('+++ agents-md@2/review/run.sh')
  expect((await run('configurations', 'diff', 'agents-md@2', 'agents-md')).out).toBe('No differences.\n')
})

test('compares configurations in one command and names them in quote and answer', async () => {
  const path = write('rules/CLAUDE.md', 'Rules.\n')
  const compare = (...more: string[]) =>
    run(
      'compare',
      'assay/quick',
      '--model',
      'anthropic/claude-sonnet-5@high=claude-code',
      '--model',
      'reference=nop',
      '--sandbox',
      'local',
      ...more,
    )
  const configurations = [
    '--configuration',
    'none',
    '--configuration',
    join(folder, 'rules'),
    '--configuration',
    'rules@1',
  ]
  const quoted = await compare(...configurations.slice(0, 4), '--quote')
  expect(quoted.code, quoted.err).toBe(0)
  expect(quoted.out).toMatch(/^anthropic\/claude-sonnet-5\|claude-code\|high +\$/m)
  expect(quoted.out).toMatch(/^anthropic\/claude-sonnet-5\|claude-code\|high\|rules@1 +\$/m)
  expect(quoted.out.match(/^reference\|nop\|none/gm)).toHaveLength(1)
  expect(quoted.err).toContain('Created configuration rules@1.')
  const twice = await compare(...configurations, '--quote')
  expect([twice.code, twice.err]).toEqual([1, expect.stringContaining('is listed twice')])

  const created = await compare('--configuration', 'none', '--configuration', path, '--yes', '--detach')
  expect(created.err).toContain('Created configuration claude.md@1.')
  await lab.work()
  const shown = await run('comparisons', 'show', 'assay/quick', created.out.trim())
  expect(shown.out).toMatch(/^anthropic\/claude-sonnet-5\|claude-code\|high\|claude\.md@1 +0\/5/m)
})

test('reports paths and texts that cannot be a configuration', async () => {
  const binary = write('logo.png', new Uint8Array([0xff, 0xfe, 0x00]))
  for (const [path, message] of [
    [join(folder, 'missing.md'), 'does not exist'],
    [binary, 'is not UTF-8 text'],
  ] as const) {
    const { code, err } = await run('compare', 'assay/quick', '--configuration', path)
    expect([code, err]).toEqual([2, expect.stringContaining(message)])
  }
  const named = await run('configurations', 'create', 'Not a name', binary.replace('logo.png', 'AGENTS.md'))
  expect([named.code, named.err]).toEqual([2, expect.stringContaining('Invalid configuration. name')])
  expect((await run('configurations', 'show', 'a@b')).code).toBe(2)
  expect((await run('configurations', 'show', 'unknown')).code).toBe(1)
})
