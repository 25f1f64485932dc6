import { COMPOSE_FILE, parseCompose } from './compose.ts'
import { parseDockerfile } from './dockerfile.ts'
import type { TaskFolder } from './environment.ts'
import { COMPOSE_BYTES_MAX, DOCKERFILE_BYTES_MAX } from './limits.ts'
import { prefixes } from './path-rules.ts'
import { newReport, type Report } from './report.ts'
import type { FileSource, SourceFile } from './source.ts'
import { readText } from './text-file.ts'

/** An environment is built from here, or a verifier of its own from a folder with tests. */
const DEFINITION = /^(?:environment|tests|steps\/[^/]+\/tests)\/(?:Dockerfile|docker-compose\.yaml)$/

/** What is known of a file before anyone has asked for it. */
type Definition = { text: string | undefined; report: Report }

export async function readFolder(source: FileSource, listed: SourceFile[], report: Report): Promise<TaskFolder> {
  const paths = new Set(listed.map(({ path }) => path))
  const folders = new Set(listed.flatMap(({ path }) => prefixes(path).slice(0, -1)))
  const definitions = await readDefinitions(source, listed)
  const defined = new Map<string, ReturnType<TaskFolder['define']>>()
  const define = (folder: string) => {
    const known = defined.get(folder) ?? defineFolder(folder, definitions, report)
    defined.set(folder, known)
    return known
  }
  return { hasFile: (path) => paths.has(path), hasFolder: (path) => folders.has(path), define }
}

async function readDefinitions(source: FileSource, listed: SourceFile[]): Promise<Map<string, Definition>> {
  const definitions = new Map<string, Definition>()
  for (const { path } of listed.filter((file) => DEFINITION.test(file.path))) {
    const report = newReport()
    const bytesMax = path.endsWith(COMPOSE_FILE) ? COMPOSE_BYTES_MAX : DOCKERFILE_BYTES_MAX
    definitions.set(path, { text: await readText(source, path, bytesMax, report), report })
  }
  return definitions
}

function defineFolder(
  folder: string,
  definitions: Map<string, Definition>,
  report: Report,
): ReturnType<TaskFolder['define']> {
  const dockerfile = `${folder}/Dockerfile`
  const build = definitions.get(dockerfile)
  const compose = definitions.get(`${folder}/${COMPOSE_FILE}`)
  for (const used of [build, compose]) if (used) report.include(used.report)
  if (build?.text !== undefined) parseDockerfile(build.text, dockerfile, report)
  return {
    dockerfile: build ? dockerfile : null,
    compose: compose?.text === undefined ? null : (parseCompose(compose.text, folder, report) ?? null),
  }
}
