import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { ROOT } from '../../scripts/files.ts'

export type Page = { path: string; text: string }

const inFolder = (folder: string): string[] =>
  readdirSync(join(ROOT, folder))
    .filter((name) => name.endsWith('.md'))
    .map((name) => join(folder, name))

export const pages: Page[] = ['.', 'docs', 'docs/decisions']
  .flatMap(inFolder)
  .map((path) => ({ path, text: readFileSync(join(ROOT, path), 'utf8') }))

/** Returns a page by its path. */
export function page(path: string): Page {
  const found = pages.find((candidate) => candidate.path === path)
  if (!found) throw new Error(`Page ${path} not found.`)
  return found
}
