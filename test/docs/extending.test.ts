import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { ROOT } from '../../scripts/files.ts'
import { page } from './pages.ts'

const RECIPE_LINES_MAX = 25

const recipes = page('docs/extending.md')
  .text.split(/^## /m)
  .slice(1)
  .map((text) => ({ title: text.split('\n', 1)[0] ?? '', text }))

test('extending.md has a recipe for a harness, a sandbox provider, a language and a public field', () => {
  expect(recipes.map(({ title }) => title)).toEqual([
    'A harness',
    'A sandbox provider',
    'A language',
    'A field in the public results',
  ])
})

test.each(recipes)('$title: every file that the recipe names exists', ({ text }) => {
  const paths = [...text.matchAll(/`((?:src|scripts|test|docs)\/[\w./-]+)`/g)].map(([, path = '']) => path)
  expect(paths.length).toBeGreaterThan(2)
  expect(paths.filter((path) => !existsSync(join(ROOT, path)))).toEqual([])
  expect(text.split('\n').length).toBeLessThanOrEqual(RECIPE_LINES_MAX)
})
