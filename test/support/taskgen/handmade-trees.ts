// Writes trees object by object, including trees that `git add` cannot create.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir } from 'node:fs/promises'
import { buffer } from 'node:stream/consumers'
import { environment } from '../histories.ts'

/** An entry of a folder. Names are latin1, because they may be invalid UTF-8. */
export type HandmadeEntry =
  | { name: string; mode?: '100644' | '100755' | '120000'; content: string | Buffer }
  | { name: string; mode: '160000'; commit?: string }
  | { name: string; entries: HandmadeEntry[] }

export async function makeRepository(folder: string): Promise<void> {
  await mkdir(folder, { recursive: true })
  await git(folder, ['init', '--quiet', '--bare', '--initial-branch=main', '.'])
}

/** Writes the tree and returns the id of its commit. */
export async function commitTree(folder: string, entries: HandmadeEntry[], parent?: string): Promise<string> {
  const tree = await writeTree(folder, entries)
  const parents = parent === undefined ? [] : ['-p', parent]
  const times = { GIT_AUTHOR_DATE: '@1700000000 +0000', GIT_COMMITTER_DATE: '@1700000000 +0000' }
  return git(folder, ['commit-tree', ...parents, '-m', 'x', tree], '', times)
}

async function writeTree(folder: string, entries: HandmadeEntry[]): Promise<string> {
  const lines: string[] = []
  for (const entry of entries) {
    if ('entries' in entry) lines.push(`040000 tree ${await writeTree(folder, entry.entries)}\t${entry.name}\0`)
    else if ('content' in entry) {
      const id = await git(folder, ['hash-object', '-w', '--stdin', '--no-filters'], entry.content)
      lines.push(`${entry.mode ?? '100644'} blob ${id}\t${entry.name}\0`)
    } else lines.push(`160000 commit ${entry.commit ?? '1'.repeat(40)}\t${entry.name}\0`)
  }
  return git(folder, ['mktree', '-z', '--missing'], Buffer.from(lines.join(''), 'latin1'))
}

async function git(cwd: string, args: string[], input: string | Buffer = '', more: Record<string, string> = {}) {
  const child = spawn('git', args, { cwd, env: { ...environment, ...more }, stdio: ['pipe', 'pipe', 'inherit'] })
  child.stdin.on('error', () => {}) // the process may end before it has read everything
  child.stdin.end(input)
  const [out, [code]] = await Promise.all([buffer(child.stdout), once(child, 'close')])
  if (code !== 0) throw new Error(`git ${args.join(' ')} ended with ${code}.`)
  return out.toString().trim()
}
