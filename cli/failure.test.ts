import { Command } from 'commander'
import { expect, test } from 'vitest'
import { describeField } from './failure.ts'

const command = new Command('any')
  .argument('<catalog-id>')
  .option('--model <id>')
  .option('--harness <names>')
  .option('--git <url>')
  .option('--secret <text>')
  .option('--budget <usd>')

test.each([
  ['/budgetUsd', '--budget'],
  ['/query/model', '--model'],
  ['/models/0/harnesses/1', '--harness'],
  ['/models/0/reasoningLevel', '--model (reasoningLevel)'],
  ['/source/url', '--git'],
  ['/secret/apiKey', '--secret (apiKey)'],
  ['/catalogId', '<catalog-id>'],
  ['/nothing/known', '/nothing/known'],
  ['', '/'],
])('%s is %s', (pointer, word) => {
  expect(describeField(pointer, command)).toBe(word)
})

test('without a command a field keeps its pointer', () => {
  expect(describeField('/budgetUsd', undefined)).toBe('/budgetUsd')
})
