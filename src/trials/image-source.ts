import { join, posix } from 'node:path'
import { MAIN_SERVICE } from '../harbor/settings.ts'
import type { ComposeService, Environment } from '../harbor/task.ts'
import { type ImageSource, SandboxUnsupported } from '../sandboxes/sandbox.ts'
import { fillEnv, fillTemplate, type TaskVariables } from './variables.ts'

/** Folder of the task and the variables of its compose file. */
export type TaskLookup = { folder: string; variables: TaskVariables }

export const mainService = ({ compose }: Environment): ComposeService | null =>
  compose?.services.find(({ name }) => name === MAIN_SERVICE) ?? null

export const sidecarServices = ({ compose }: Environment): ComposeService[] =>
  (compose?.services ?? []).filter(({ name }) => name !== MAIN_SERVICE)

/** Returns the image source of `main`. As in Harbor, the compose file takes precedence. */
export function environmentSource(environment: Environment, lookup: TaskLookup): ImageSource {
  const main = mainService(environment)
  if (main && (main.build || namesAnImage(main))) return serviceSource(main, lookup)
  const context = join(lookup.folder, environment.folder)
  const { image, dockerfile, compose, workdir } = environment
  if (image !== null) {
    return { kind: 'prebuilt', name: image, folder: dockerfile || compose ? null : context, workdir }
  }
  if (dockerfile === null) throw new SandboxUnsupported('The task declares neither a Dockerfile nor an image.')
  const path = posix.relative(environment.folder, dockerfile)
  return { kind: 'dockerfile', context, dockerfile: path, target: null, args: {} }
}

/** Returns the image source of a compose service. */
export function serviceSource({ name, image, build }: ComposeService, { folder, variables }: TaskLookup): ImageSource {
  if (build) {
    const { context, dockerfile, target, args } = build
    return {
      kind: 'dockerfile',
      context: join(folder, context),
      dockerfile,
      target,
      args: fillEnv(args, variables),
    }
  }
  if (image) return { kind: 'prebuilt', name: fillTemplate(image, variables), folder: null, workdir: null }
  throw new SandboxUnsupported(`The service ${name} has neither an image nor a build.`)
}

/** TaskVariables in which Harbor passes the name of the image that it built. */
const HARBOR_IMAGE_VARIABLES = ['MAIN_IMAGE_NAME', 'PREBUILT_IMAGE_NAME']

const namesAnImage = ({ image }: ComposeService): boolean =>
  image !== null && !image.some((part) => typeof part !== 'string' && HARBOR_IMAGE_VARIABLES.includes(part.variable))
