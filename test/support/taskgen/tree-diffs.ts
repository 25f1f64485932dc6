import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { environment } from '../histories.ts'

/** Trees in a new repository, and patches between them as the pipeline reads them. */
type TreeDiffs = {
  /** Stores files, given in latin1, and returns the id of their tree. */
  treeOf(files: Record<string, string>): string
  diff(from: string, to: string, contextLines?: number): string
  /** Returns the tree that a patch leads to. Throws if the patch does not apply. */
  applied(tree: string, patch: string): string
  [Symbol.dispose](): void
}

export function openTreeDiffs(): TreeDiffs {
  const folder = mkdtempSync(join(tmpdir(), 'assay-hunks-'))
  const git = (...args: string[]): string =>
    execFileSync('git', args, { cwd: folder, env: environment, encoding: 'latin1', maxBuffer: 64 * 1024 * 1024 })
  git('init', '--quiet')
  return {
    treeOf(files) {
      git('read-tree', '--empty')
      for (const [path, text] of Object.entries(files)) {
        writeFileSync(join(folder, 'content'), text, 'latin1')
        const id = git('hash-object', '-w', 'content').trim()
        git('update-index', '--add', '--cacheinfo', `100644,${id},${path}`)
      }
      return git('write-tree').trim()
    },
    diff: (from, to, contextLines = 3) =>
      git('diff-tree', '-r', '-p', '--binary', '--full-index', '--no-renames', `-U${contextLines}`, from, to),
    applied(tree, patch) {
      git('read-tree', tree)
      if (patch === '') return tree
      writeFileSync(join(folder, 'patch'), patch, 'latin1')
      git('apply', '--cached', '--binary', 'patch')
      return git('write-tree').trim()
    },
    [Symbol.dispose]: () => rmSync(folder, { recursive: true, force: true }),
  }
}
