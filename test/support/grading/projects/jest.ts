import type { SampleProject } from '../sample-project.ts'

const SHAPES = `const { area } = require('../shapes.js')

test('square', () => expect(area(2)).toBe(4))
test('wrong', () => expect(area(2)).toBe(5))
test('error', () => { throw new TypeError('no such shape') })
test.skip('later', () => {})
test.todo('planned')
test.each(['größe', '面積', 'a > b'])('text %s', (text) => expect(text).toBeTruthy())
describe('area', () => {
  it('square', () => expect(area(3)).toBe(9))
  describe('of nothing', () => it('is nothing', () => expect(area(0)).toBe(0)))
})
`

export const jestSample: SampleProject = {
  runner: 'jest',
  tree: {
    'package.json': '{ "devDependencies": { "jest": "^29" } }\n',
    'shapes.js': 'exports.area = (side) => side * side\n',
    'tests/shapes.test.js': SHAPES,
    'tests/unreadable.test.js': "require('./nothing-of-this-name.js')\n",
    'tests/other.test.js': "test('square', () => {})\n",
  },
  statuses: {
    'tests/shapes.test.js > square': 'passed',
    'tests/shapes.test.js > wrong': 'failed',
    'tests/shapes.test.js > error': 'failed',
    'tests/shapes.test.js > later': 'skipped',
    'tests/shapes.test.js > planned': 'skipped',
    'tests/shapes.test.js > text größe': 'passed',
    'tests/shapes.test.js > text 面積': 'passed',
    'tests/shapes.test.js > text a > b': 'passed',
    'tests/shapes.test.js > area > square': 'passed',
    'tests/shapes.test.js > area > of nothing > is nothing': 'passed',
    'tests/unreadable.test.js': 'errored',
    'tests/other.test.js > square': 'passed',
  },
  target: 'tests/other.test.js',
  targetStatuses: { 'tests/other.test.js > square': 'passed' },
  failureMessage: ['tests/shapes.test.js > wrong', 'Expected: 5'],
}

export const vitestSample: SampleProject = {
  ...jestSample,
  runner: 'vitest',
  tree: {
    'package.json': '{ "type": "module", "devDependencies": { "vitest": "^3" } }\n',
    'shapes.js': 'export const area = (side) => side * side\n',
    'tests/shapes.test.js': SHAPES.replace(
      "const { area } = require('../shapes.js')",
      "import { describe, expect, it, test } from 'vitest'\nimport { area } from '../shapes.js'",
    ),
    'tests/unreadable.test.js': "import './nothing-of-this-name.js'\n",
    'tests/other.test.js': "import { test } from 'vitest'\ntest('square', () => {})\n",
  },
  failureMessage: ['tests/shapes.test.js > wrong', 'expected 4 to be 5'],
}
