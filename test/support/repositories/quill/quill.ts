import type { SampleRepository } from '../repository.ts'
import { bad, rest } from './bad.ts'
import { base } from './base.ts'
import { good } from './good.ts'

/** Sums in a line of text. Rust and its standard library. */
export const quill: SampleRepository = {
  name: 'quill',
  language: 'rust',
  base,
  steps: [...Object.values(good), ...bad, ...rest],
  tag: 'v1.0.0',
}
