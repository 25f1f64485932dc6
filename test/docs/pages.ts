import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { ROOT } from '../../scripts/files.ts'

export type DocPage = { path: string; text: string }

const inFolder = (folder: string): string[] =>
  readdirSync(join(ROOT, folder))
    .filter((name) => name.endsWith('.md'))
    .map((name) => join(folder, name))

export const pages: DocPage[] = ['.', 'docs', 'docs/decisions', 'docs/evidence']
  .flatMap(inFolder)
  .map((path) => ({ path, text: readFileSync(join(ROOT, path), 'utf8') }))

/** Returns a page by its path. */
export function page(path: string): DocPage {
  const found = pages.find((candidate) => candidate.path === path)
  if (!found) throw new Error(`Page ${path} not found.`)
  return found
}
