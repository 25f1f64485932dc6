import type { SampleProject } from '../sample-project.ts'

export const nodeTestSample: SampleProject = {
  runner: 'node-test',
  tree: {
    'package.json': '{ "type": "module", "scripts": { "test": "node --test" } }\n',
    'shapes.js': 'export const area = (side) => side * side\n',
    'test/shapes.test.js': `import assert from 'node:assert/strict'
import { describe, it, test } from 'node:test'
import { area } from '../shapes.js'

test('square', () => assert.equal(area(2), 4))
test('wrong', () => assert.equal(area(2), 5))
test('error', () => { throw new TypeError('no such shape') })
test('later', { skip: true }, () => {})
test('planned', { todo: true }, () => { throw new Error('not yet') })
test('größe > 面積 \\u001b[31mred', () => {})
test('at 127.0.0.1:43121 (12ms)', () => {})
test('parts', async (t) => {
  await t.test('one', () => {})
  await t.test('two', () => assert.ok(false))
})
describe('area', () => {
  it('square', () => assert.equal(area(3), 9))
  describe('of nothing', () => it('is nothing', () => assert.equal(area(0), 0)))
})
`,
    'test/unreadable.test.js': "import './nothing-of-this-name.js'\n",
    'test/other.test.js': "import { test } from 'node:test'\ntest('square', () => {})\n",
  },
  statuses: {
    'test/shapes.test.js > square': 'passed',
    'test/shapes.test.js > wrong': 'failed',
    'test/shapes.test.js > error': 'failed',
    'test/shapes.test.js > later': 'skipped',
    'test/shapes.test.js > planned': 'skipped',
    'test/shapes.test.js > größe > 面積 red': 'passed',
    'test/shapes.test.js > at 127.0.0.1:<port>': 'passed',
    'test/shapes.test.js > parts > one': 'passed',
    'test/shapes.test.js > parts > two': 'failed',
    'test/shapes.test.js > parts': 'failed',
    'test/shapes.test.js > area > square': 'passed',
    'test/shapes.test.js > area > of nothing > is nothing': 'passed',
    'test/unreadable.test.js > test/unreadable.test.js': 'failed',
    'test/other.test.js > square': 'passed',
  },
  target: 'test/other.test.js',
  targetStatuses: { 'test/other.test.js > square': 'passed' },
  failureMessage: ['test/shapes.test.js > wrong', '4 !== 5'],
}
