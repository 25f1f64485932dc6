import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { newKey } from '../src/workspaces/key.ts'
import { type TestApp, testApp } from '../test/support/app.ts'
import { assay, scratchFolder } from '../test/support/assay-command.ts'
import { openComparisonLab } from '../test/support/comparisons.ts'
import { writeTask } from '../test/support/trials/trial-runner.ts'

const folder = scratchFolder()
const task = join(folder.path, 'task')
const broken = join(folder.path, 'broken')
let app: TestApp

beforeAll(async () => {
  writeTask(task)
  writeTask(broken, { 'task.toml': 'schema_version = "1.4"\n[task\n' })
  app = await testApp()
  const lab = await openComparisonLab(app)
  await lab.offer()
})
afterAll(async () => {
  await app[Symbol.asyncDispose]()
  folder.remove()
})

const ID = '0198c0de-0000-7000-8000-000000000000'
const data = ['--data', join(folder.path, 'data')]

/** Mistakes that everybody makes once, with what the message must say. */
const MISTAKES: [mistake: string, args: string[], code: number, message: RegExp, env?: Record<string, string>][] = [
  ['a command with a typo', ['comparre'], 2, /unknown command 'comparre'\n.*Did you mean compare\?/],
  ['an option with a typo', ['compare', 'assay/quick', '--modle', 'x'], 2, /unknown option '--modle'\n.*--model/],
  ['a missing argument', ['run'], 2, /Name a target: a task folder/],
  ['no key', ['keys', 'list'], 2, /Set ASSAY_KEY\. The first start/, { ASSAY_KEY: '' }],
  ['an invalid key', ['keys', 'list'], 2, /ASSAY_KEY contains invalid characters/, { ASSAY_KEY: 'two words' }],
  ['a key of another service', ['keys', 'list'], 1, /does not know the key in ASSAY_KEY/, { ASSAY_KEY: newKey() }],
  ['an address without a scheme', ['keys', 'list', '--url', 'localhost:4000'], 2, /--url must be an http or https URL/],
  ['a wrong port', ['keys', 'list', '--url', 'http://127.0.0.1:1'], 3, /No response from http:\/\/127\.0\.0\.1:1\./],
  ['another workspace', ['keys', 'list', '--org', 'acme'], 1, /gives no access to acme/],
  ['a model with a typo', ['compare', 'assay/quick', '--model', 'refrence'], 2, /Did you mean reference\?/],
  [
    'a model without a key',
    ['compare', 'assay/quick', '--model', 'anthropic/claude-sonnet-5'],
    2,
    /Add one: assay cred/,
  ],
  ['an unknown harness', ['compare', 'assay/quick', '--harness', 'orcale'], 2, /Did you mean oracle\?/],
  ['a sandbox with a typo', ['compare', 'assay/quick', '--sandbox', 'locall'], 2, /Did you mean local\?/],
  ['a dataset that was not added', ['compare', 'assay/unknown'], 1, /benchmark_not_added|not added/],
  ['a dataset without an owner', ['compare', 'quick'], 2, /org\/name/],
  ['a budget that is no number', ['compare', 'assay/quick', '--budget', 'five'], 2, /--budget must be a number/],
  ['zero attempts', ['compare', 'assay/quick', '--attempts', '0'], 1, /--attempts/],
  [
    'a level with a typo',
    ['models', 'add', 'custom/x', '--base-url', 'http://127.0.0.1:1/v1', '--levels', 'hihg'],
    2,
    /Did you mean high\?/,
  ],
  ['an id that is none', ['comparisons', 'show', 'assay/quick', 'latest'], 2, /Not an id\. List them with/],
  ['an id that does not exist', ['comparisons', 'show', 'assay/quick', ID], 1, /not found/],
  [
    'a state with a typo',
    ['comparisons', 'trials', 'assay/quick', ID, '--state', 'fialed'],
    2,
    /Did you mean failed\?/,
  ],
  [
    'a format with a typo',
    ['comparisons', 'show', 'assay/quick', ID, '--format', 'xml'],
    2,
    /--format must be one of: table/,
  ],
  ['a task folder that is missing', ['trial', '/nope', ...data], 1, /\/nope does not exist\./],
  [
    'a file instead of a folder',
    ['trial', join(task, 'task.toml'), ...data],
    1,
    /is a file\. Name the folder of a task/,
  ],
  ['a broken task', ['trial', broken, ...data], 1, /task\.toml/],
  ['a local harness with a typo', ['trial', task, '--harness', 'claudecode', ...data], 2, /Did you mean claude-code\?/],
  [
    'a local model with a typo',
    ['trial', task, '--harness', 'mini', '--model', 'anthropic/claude-sonet-5', ...data],
    2,
    /Did you mean anthropic\/claude-sonnet-5\?/,
  ],
  [
    'a missing key of a provider',
    ['trial', task, '--harness', 'mini', '--model', 'anthropic/claude-sonnet-5', ...data],
    2,
    /Set ANTHROPIC_API_KEY\./,
  ],
  ['an expectation with a typo', ['trial', task, '--expect', 'passed', ...data], 2, /--expect must be pass or fail/],
]

test.each(MISTAKES)('%s', async (_, args, code, message, env = {}) => {
  const ran = await assay(args, { env: { ASSAY_URL: app.url, ASSAY_KEY: app.adminKey, ...env } })
  expect({ code: ran.code, out: ran.out }, ran.err).toEqual({ code, out: '' })
  expect(ran.err).toMatch(message)
})
