import { createHash } from 'node:crypto'
import { mkdir, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { EnvRecipe } from '../../grading/languages/recipe.ts'
import { readBlobs } from '../../platform/git/blobs.ts'
import type { GitLocation } from '../../platform/git/settings.ts'
import { ARCHIVE, MANIFESTS, renderDockerfile } from './dockerfile.ts'
import type { BaseTree } from './read-tree.ts'
import { writeArchive } from './tree-archive.ts'

export type EnvironmentInput = { recipe: EnvRecipe; place: GitLocation; tree: BaseTree }

/** Files of an environment. Candidates with the same profile share every layer below their own tree. */
export type WrittenEnvironment = { profile: string; dockerfile: string }

/** Writes the context of the build: a Dockerfile, the manifests, the tree. The folder is made. */
export async function writeEnvironment(
  folder: string,
  { recipe, place, tree }: EnvironmentInput,
  signal: AbortSignal,
): Promise<WrittenEnvironment> {
  const dockerfile = renderDockerfile(recipe, tree.committedAt)
  await mkdir(folder, { recursive: true })
  const contents = await writeManifests(join(folder, MANIFESTS), { recipe, place, tree }, signal)
  await writeArchive(join(folder, ARCHIVE), { place, entries: tree.entries }, signal)
  await writeFile(join(folder, 'Dockerfile'), dockerfile)
  return { profile: hashProfile(recipe, contents), dockerfile }
}

/** Manifests that are no plain files are left out: a link would lead to where nothing is yet. */
async function writeManifests(folder: string, { recipe, place, tree }: EnvironmentInput, signal: AbortSignal) {
  const wanted = new Set(recipe.manifests)
  const entries = tree.entries.filter(({ path, kind }) => wanted.has(path) && kind !== 'link')
  const bytesMax = entries.reduce((most, { size }) => Math.max(most, size), 0)
  const contents: [string, string][] = []
  if (recipe.manifests.length > 0) await mkdir(folder)
  for await (const { path, id, content } of readBlobs(place, entries, { signal, bytesMax })) {
    await mkdir(dirname(join(folder, path)), { recursive: true })
    await writeFile(join(folder, path), content)
    contents.push([path, id])
  }
  return contents
}

/** Hashes everything that determines the shared layers. */
function hashProfile({ base, aptPackages, env, setup }: EnvRecipe, contents: [string, string][]): string {
  const variables = Object.entries(env).sort(([a], [b]) => (a < b ? -1 : 1))
  const parts = [base, [...aptPackages].sort(), variables, setup, contents]
  return createHash('sha256').update(JSON.stringify(parts)).digest('hex').slice(0, 32)
}
