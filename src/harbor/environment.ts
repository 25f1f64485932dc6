import { COMPOSE_FILE, parseCompose } from './compose.ts'
import { parseDockerfile } from './dockerfile.ts'
import type { EnvironmentConfig } from './environment-config.ts'
import { COMPOSE_BYTES_MAX, DOCKERFILE_BYTES_MAX } from './limits.ts'
import { listPrefixes } from './paths.ts'
import { createReport, type Report } from './report.ts'
import type { FileSource, SourceFile } from './source.ts'
import type { Compose, Environment } from './task.ts'
import { readText } from './text-file.ts'

export const ENVIRONMENT_FOLDER = 'environment'

/** Access to the files of a task that define its environments. */
export type EnvironmentFiles = {
  hasFile(path: string): boolean
  hasFolder(path: string): boolean
  /** Parses the Dockerfile and compose file of a folder. Called only for folders that are used as an environment. */
  readDefinitions(folder: string): { dockerfile: string | null; compose: Compose | null }
}

/** Combines the settings of an environment with the definition files of its folder. */
export const buildEnvironment = (folder: string, config: EnvironmentConfig, files: EnvironmentFiles): Environment => ({
  ...config,
  os: config.os ?? 'linux',
  folder,
  ...files.readDefinitions(folder),
})

export const isDefinedIn = (folder: string, files: EnvironmentFiles): boolean =>
  files.hasFile(`${folder}/Dockerfile`) || files.hasFile(`${folder}/${COMPOSE_FILE}`)

/** Files that define the environment of the agent, or of a separate verifier. */
const DEFINITION = /^(?:environment|tests|steps\/[^/]+\/tests)\/(?:Dockerfile|docker-compose\.yaml)$/

/** A definition file. Its report is included only if the file is used. */
type Definition = { text: string | undefined; report: Report }

export async function readEnvironmentFiles(
  source: FileSource,
  listed: SourceFile[],
  report: Report,
): Promise<EnvironmentFiles> {
  const paths = new Set(listed.map(({ path }) => path))
  const folders = new Set(listed.flatMap(({ path }) => listPrefixes(path).slice(0, -1)))
  const definitions = await loadDefinitions(source, listed)
  const defined = new Map<string, ReturnType<EnvironmentFiles['readDefinitions']>>()
  const readDefinitions = (folder: string) => {
    const parsed = defined.get(folder) ?? parseDefinitions(folder, definitions, report)
    defined.set(folder, parsed)
    return parsed
  }
  return { hasFile: (path) => paths.has(path), hasFolder: (path) => folders.has(path), readDefinitions }
}

async function loadDefinitions(source: FileSource, listed: SourceFile[]): Promise<Map<string, Definition>> {
  const definitions = new Map<string, Definition>()
  for (const { path } of listed.filter((file) => DEFINITION.test(file.path))) {
    const report = createReport()
    const bytesMax = path.endsWith(COMPOSE_FILE) ? COMPOSE_BYTES_MAX : DOCKERFILE_BYTES_MAX
    definitions.set(path, { text: await readText(source, path, bytesMax, report), report })
  }
  return definitions
}

function parseDefinitions(
  folder: string,
  definitions: Map<string, Definition>,
  report: Report,
): ReturnType<EnvironmentFiles['readDefinitions']> {
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
