import { expect, test } from 'vitest'
import { describeSetting, renderProgram } from './format.ts'

const setting = (extras: string) => ({
  id: `openai/gpt-6-sol|codex|low${extras}`,
  harness: 'codex',
  reasoningLevel: 'low' as const,
  model: { label: 'GPT-6 Sol' } as Parameters<typeof describeSetting>[0]['model'],
})

test.each([
  ['', 'GPT-6 Sol, Codex, low'],
  ['|lean@2', 'GPT-6 Sol, Codex, low, lean@2'],
  ['|timeouts*2.5', 'GPT-6 Sol, Codex, low, time limits × 2.5'],
  ['|lean@2|timeouts*2', 'GPT-6 Sol, Codex, low, lean@2, time limits × 2'],
])('describes a setting with the extras %j', (extras, expected) => {
  expect(describeSetting(setting(extras))).toBe(expected)
  const text = String(renderProgram(setting(extras))).replaceAll(/<[^>]*>/g, '')
  expect(`GPT-6 Sol, ${text.replaceAll(' · ', ', ')}`).toBe(expected)
})
