import { COMPOSE_FILE } from './compose.ts'
import type { EnvironmentConfig } from './environment-config.ts'
import type { Compose, Environment } from './task.ts'

export const ENVIRONMENT_FOLDER = 'environment'

/** What the files of a task say about its environments. */
export type TaskFolder = {
  hasFile(path: string): boolean
  hasFolder(path: string): boolean
  /** Checks the Dockerfile and the compose file of a folder that is used: elsewhere they are files like others. */
  define(folder: string): { dockerfile: string | null; compose: Compose | null }
}

/** A folder says how to build what its config only names. */
export const environmentIn = (folder: string, config: EnvironmentConfig, files: TaskFolder): Environment => ({
  ...config,
  os: config.os ?? 'linux',
  folder,
  ...files.define(folder),
})

export const isDefinedIn = (folder: string, files: TaskFolder): boolean =>
  files.hasFile(`${folder}/Dockerfile`) || files.hasFile(`${folder}/${COMPOSE_FILE}`)
