import { COMPOSE_FILE, parseCompose } from './compose.ts'
import { parseDockerfile } from './dockerfile.ts'
import type { EnvironmentConfig } from './environment-config.ts'
import { COMPOSE_BYTES_MAX, DOCKERFILE_BYTES_MAX } from './limits.ts'
import { listPrefixes } from './paths.ts'
import { createReport, type Report } from './report.ts'
import { type FileSource, readText, type SourceFile } from './source.ts'
import type { Compose, Environment } from './task.ts'

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

/** A Dockerfile or compose file. The findings in its report count only if an environment uses the file. */
type Definition = { text: string | undefined; report: Report }

export async function readEnvironmentFiles(
  source: FileSource,
  sourceFiles: SourceFile[],
  report: Report,
): Promise<EnvironmentFiles> {
  const paths = new Set(sourceFiles.map(({ path }) => path))
  const folders = new Set(sourceFiles.flatMap(({ path }) => listPrefixes(path).slice(0, -1)))
  const definitions = await loadDefinitions(source, sourceFiles)
  const parsedByFolder = new Map<string, ReturnType<EnvironmentFiles['readDefinitions']>>()
  const readDefinitions = (folder: string) => {
    const parsed = parsedByFolder.get(folder) ?? parseDefinitions(folder, definitions, report)
    parsedByFolder.set(folder, parsed)
    return parsed
  }
  return { hasFile: (path) => paths.has(path), hasFolder: (path) => folders.has(path), readDefinitions }
}

async function loadDefinitions(source: FileSource, sourceFiles: SourceFile[]): Promise<Map<string, Definition>> {
  const definitions = new Map<string, Definition>()
  for (const { path } of sourceFiles.filter((file) => DEFINITION.test(file.path))) {
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
  const dockerfilePath = `${folder}/Dockerfile`
  const dockerfile = definitions.get(dockerfilePath)
  const compose = definitions.get(`${folder}/${COMPOSE_FILE}`)
  for (const used of [dockerfile, compose]) if (used) report.include(used.report)
  if (dockerfile?.text !== undefined) parseDockerfile(dockerfile.text, dockerfilePath, report)
  return {
    dockerfile: dockerfile ? dockerfilePath : null,
    compose: compose?.text === undefined ? null : (parseCompose(compose.text, folder, report) ?? null),
  }
}
