import { expect, test } from 'vitest'
import { createNameShortener } from './text.ts'

const setting = (label: string, harness: string, reasoningLevel: string, configuration = '') => ({
  id: ['acme/model', harness, reasoningLevel, ...(configuration ? [configuration] : [])].join('|'),
  model: { label } as never,
  harness,
  reasoningLevel,
})

test('short names leave out what all settings have in common', () => {
  const settings = [setting('Model', 'mini', 'high'), setting('Model', 'mini', 'low', 'rules@1')]
  expect(settings.map(createNameShortener(settings))).toEqual(['high', 'low · rules@1'])
})

test('the only setting keeps its whole name', () => {
  const settings = [setting('Model', 'mini', 'high')]
  expect(settings.map(createNameShortener(settings))).toEqual(['Model · mini · high'])
})
