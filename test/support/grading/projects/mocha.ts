import type { SampleProject } from '../sample-project.ts'

export const mochaSample: SampleProject = {
  runner: 'mocha',
  tree: {
    'package.json': '{ "devDependencies": { "mocha": "^11" } }\n',
    'shapes.js': 'exports.area = (side) => side * side\n',
    'test/shapes.js': `const assert = require('node:assert')
const { area } = require('../shapes.js')

describe('area', () => {
  it('square', () => assert.equal(area(2), 4))
  it('wrong', () => assert.equal(area(2), 5))
  it('error', () => { throw new TypeError('no such shape') })
  it.skip('later', () => {})
  it('planned')
  for (const text of ['größe', '面積', 'a > b']) it(\`text \${text}\`, () => console.log('{"stats": {}}'))
  describe('unready', () => {
    before(() => { throw new Error('not today') })
    it('never', () => {})
  })
})
`,
    'test/other.js': "it('square', () => {})\n",
  },
  statuses: {
    'test/shapes.js > area square': 'passed',
    'test/shapes.js > area wrong': 'failed',
    'test/shapes.js > area error': 'failed',
    'test/shapes.js > area later': 'skipped',
    'test/shapes.js > area planned': 'skipped',
    'test/shapes.js > area text größe': 'passed',
    'test/shapes.js > area text 面積': 'passed',
    'test/shapes.js > area text a > b': 'passed',
    'test/shapes.js > area unready "before all" hook for "never"': 'failed',
    'test/other.js > square': 'passed',
  },
  target: 'test/other.js',
  targetStatuses: { 'test/other.js > square': 'passed' },
  failureMessage: ['test/shapes.js > area wrong', '4 == 5'],
}
