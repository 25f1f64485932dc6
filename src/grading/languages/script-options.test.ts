import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { findRunner } from './languages.ts'

let folder: string
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'assay-script-options-'))
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

/** Stands in for the test program: records its arguments and the variables of Node. */
const PROGRAM = `const { NODE_ENV, NODE_OPTIONS } = process.env
require('node:fs').writeFileSync('started.json', JSON.stringify({ args: process.argv.slice(2), NODE_ENV, NODE_OPTIONS }))
`

/** Runs the command of a runner in a repository with this test script. */
function start(runnerId: string, scripts: object, targets: string[] = []) {
  const runner = findRunner(runnerId)
  if (!runner) throw new Error(`There is no runner ${runnerId}.`)
  const repository = mkdtempSync(join(folder, 'repository-'))
  const installed = join(repository, 'node_modules', runnerId)
  mkdirSync(installed, { recursive: true })
  writeFileSync(join(installed, 'package.json'), JSON.stringify({ version: '1.0.0', bin: 'program.js' }))
  writeFileSync(join(installed, 'program.js'), PROGRAM)
  writeFileSync(join(repository, 'package.json'), JSON.stringify({ scripts }))
  for (const { name, file } of runner.tools)
    writeFileSync(join(repository, name), readFileSync(join(import.meta.dirname, 'files', file)))
  const { NODE_OPTIONS: _, NODE_ENV: __, ...env } = process.env
  execFileSync('sh', ['-c', runner.command({ targets, seed: null })], {
    cwd: repository,
    env: { ...env, ASSAY_TOOLS: repository, ASSAY_REPORT: '/report' },
  })
  return JSON.parse(readFileSync(join(repository, 'started.json'), 'utf8'))
}

const listArgs = (runnerId: string, script: string, targets: string[] = []): string[] =>
  start(runnerId, { test: script }, targets).args.filter(
    (word: string) => !/reporter|^json$|report|coverage/.test(word),
  )

test.each([
  [
    'nyc mocha --require test/support/env --reporter spec --check-leaks test/ test/acceptance/',
    ['--require', 'test/support/env', '--check-leaks', 'test/', 'test/acceptance/'],
  ],
  ["mocha 'test/**/*.js' && eslint .", ['test/**/*.js']],
  ['eslint . ; ./node_modules/.bin/mocha --require=$SETUP "it\'s here.js"', ["it's here.js"]],
  ['mocha -R dot -g fast --parallel', []],
  ['eslint . && node --test', []],
])('runs the tests that the test script names: %s', (script, args) => {
  expect(listArgs('mocha', script)).toEqual(args)
})

test('selected files replace the paths of the script, and its options stay', () => {
  expect(listArgs('mocha', 'mocha -r tsx --recursive test/', ['test/one.ts'])).toEqual([
    '-r',
    'tsx',
    '--recursive',
    'test/one.ts',
  ])
})

test('the configuration file of a script is used', () => {
  expect(listArgs('jest', 'jest --coverage -c unit.json src')).toEqual(expect.arrayContaining(['-c', 'unit.json']))
  expect(listArgs('vitest', 'vitest run --config=unit.ts')).toEqual(['--config=unit.ts', 'run'])
})

test.each([
  ["NODE_OPTIONS='--no-warnings --enable-source-maps' mocha", '--no-warnings --enable-source-maps'],
  ['node --no-warnings node_modules/mocha/bin/mocha.js', '--no-warnings'],
  ['NODE_OPTIONS="$NODE_OPTIONS --no-warnings" mocha', undefined],
])('Node has the options of the script: %s', (script, options) => {
  expect(start('mocha', { test: script }).NODE_OPTIONS).toBe(options)
})

test('variables that choose an environment are set', () => {
  expect(start('mocha', { test: 'PATH=/evil cross-env NODE_ENV=test mocha' }).NODE_ENV).toBe('test')
})

test('a script that starts another one is found', () => {
  expect(start('mocha', { test: 'npm run test:unit', 'test:unit': 'mocha unit/' }).args).toContain('unit/')
})
