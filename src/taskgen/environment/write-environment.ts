import { createHash } from 'node:crypto'
import { createWriteStream } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createGzip } from 'node:zlib'
import type { EnvRecipe } from '../../grading/languages/recipe.ts'
import { readBlobs } from '../../platform/git/git.ts'
import type { GitLocation } from '../../platform/git/settings.ts'
import { tarEnd, tarPadding } from '../../sandboxes/kernel/tar-writer.ts'
import { headerBlocks } from '../../trials/tar.ts'
import { ARCHIVE, MANIFESTS, renderDockerfile, SUBMODULES_ARCHIVE } from './dockerfile.ts'
import type { SubmoduleFiles } from './read-submodules.ts'
import type { BaseTree, TreeEntry } from './read-tree.ts'

type EnvironmentInput = {
  recipe: EnvRecipe
  location: GitLocation
  tree: BaseTree
  submodules?: readonly SubmoduleFiles[]
}

/** Description of the written files. Candidates with the same profile share every layer below their own tree. */
type WrittenEnvironment = { profile: string; dockerfile: string }

/** Creates the folder of the build context and writes a Dockerfile, the manifests and the tree. */
export async function writeEnvironment(
  folder: string,
  { recipe, location, tree, submodules = [] }: EnvironmentInput,
  signal: AbortSignal,
): Promise<WrittenEnvironment> {
  const { committedAt, gitlinks } = tree
  const hasSubmodules = submodules.some(({ entries }) => entries.length > 0)
  const dockerfile = renderDockerfile(recipe, { committedAt, gitlinks, hasSubmodules })
  await mkdir(folder, { recursive: true })
  const contents = await writeManifests(join(folder, MANIFESTS), { recipe, location, tree }, signal)
  await writeArchive(join(folder, ARCHIVE), [{ location, entries: tree.entries }], signal)
  if (hasSubmodules) await writeArchive(join(folder, SUBMODULES_ARCHIVE), submodules, signal)
  await writeFile(join(folder, 'Dockerfile'), dockerfile)
  return { profile: hashProfile(recipe, contents), dockerfile }
}

/** Writes the manifests, except links: their targets do not exist in this layer. Returns path and blob id of each. */
async function writeManifests(folder: string, { recipe, location, tree }: EnvironmentInput, signal: AbortSignal) {
  const wanted = new Set(recipe.manifests)
  const entries = tree.entries.filter(({ path, kind }) => wanted.has(path) && kind !== 'link')
  const bytesMax = entries.reduce((most, { size }) => Math.max(most, size), 0)
  const contents: [string, string][] = []
  if (recipe.manifests.length > 0) await mkdir(folder)
  for await (const { path, id, content } of readBlobs(location, entries, { signal, bytesMax })) {
    await mkdir(dirname(join(folder, path)), { recursive: true })
    await writeFile(join(folder, path), content)
    contents.push([path, id])
  }
  return contents
}

/** Hashes everything that determines the shared layers. */
function hashProfile({ base, aptPackages, env, toolchain, setup }: EnvRecipe, contents: [string, string][]): string {
  const variables = Object.entries(env).sort(([a], [b]) => (a < b ? -1 : 1))
  const parts = [base, [...aptPackages].sort(), variables, toolchain, setup, contents]
  return createHash('sha256').update(JSON.stringify(parts)).digest('hex').slice(0, 32)
}

/**
 * Packs the files of a tree as `.tar.gz`: sorted, owned by root, without times. Git attributes are ignored, so that no
 * file is left out or rewritten. The same tree gives the same bytes.
 */
async function writeArchive(
  file: string,
  trees: readonly { location: GitLocation; entries: readonly TreeEntry[] }[],
  signal: AbortSignal,
): Promise<void> {
  const tar = Readable.from(packTrees(trees, signal), { objectMode: false })
  await pipeline(tar, createGzip({ level: 6 }), createWriteStream(file, { mode: 0o644 }), { signal })
}

async function* packTrees(trees: Parameters<typeof writeArchive>[1], signal: AbortSignal): AsyncGenerator<Buffer> {
  for (const { location, entries } of trees) yield* streamTarBlocks(location, entries, signal)
  yield tarEnd()
}

async function* streamTarBlocks(
  location: GitLocation,
  entries: readonly TreeEntry[],
  signal: AbortSignal,
): AsyncGenerator<Buffer> {
  const bytesMax = entries.reduce((most, { size }) => Math.max(most, size), 0)
  for await (const { path, kind, content } of readBlobs(location, entries, { signal, bytesMax })) {
    if (kind === 'link') {
      const linkpath = content.toString()
      yield* headerBlocks({ path, type: 'SymbolicLink', mode: 0o777, uid: 0, size: 0, linkpath })
      continue
    }
    yield* headerBlocks({ path, type: 'File', mode: kind === 'program' ? 0o755 : 0o644, uid: 0, size: content.length })
    yield content
    yield tarPadding(content.length)
  }
}
