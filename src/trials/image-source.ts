import { join, posix } from 'node:path'
import { MAIN_SERVICE } from '../harbor/settings.ts'
import type { ComposeService, Environment } from '../harbor/task.ts'
import { type ImageSource, SandboxUnsupported } from '../sandboxes/sandbox.ts'
import { filled, filledEnv, type Variables } from './variables.ts'

/** Where the task lies, and the values that its compose file asks for. */
export type Lookup = { folder: string; variables: Variables }

export const mainService = ({ compose }: Environment): ComposeService | null =>
  compose?.services.find(({ name }) => name === MAIN_SERVICE) ?? null

export const sidecarServices = ({ compose }: Environment): ComposeService[] =>
  (compose?.services ?? []).filter(({ name }) => name !== MAIN_SERVICE)

/** What the agent's own image is made of. As in Harbor, the compose file has the last word. */
export function environmentSource(environment: Environment, lookup: Lookup): ImageSource {
  const main = mainService(environment)
  if (main && (main.build || namesAnImage(main))) return serviceSource(main, lookup)
  const context = join(lookup.folder, environment.folder)
  const { image, dockerfile, compose, workdir } = environment
  if (image !== null) {
    return { kind: 'prebuilt', name: image, folder: dockerfile || compose ? null : context, workdir }
  }
  if (dockerfile === null)
    throw new SandboxUnsupported('The task says neither how to build its image nor which to use.')
  const path = posix.relative(environment.folder, dockerfile)
  return { kind: 'dockerfile', context, dockerfile: path, target: null, args: {} }
}

/** What the image of a compose service is made of. */
export function serviceSource({ name, image, build }: ComposeService, { folder, variables }: Lookup): ImageSource {
  if (build) {
    const { context, dockerfile, target, args } = build
    return {
      kind: 'dockerfile',
      context: join(folder, context),
      dockerfile,
      target,
      args: filledEnv(args, variables),
    }
  }
  if (image) return { kind: 'prebuilt', name: filled(image, variables), folder: null, workdir: null }
  throw new SandboxUnsupported(`The service ${name} has neither an image nor a build.`)
}

/** Harbor hands over the name of what it built itself in these. */
const OF_HARBOR = ['MAIN_IMAGE_NAME', 'PREBUILT_IMAGE_NAME']

const namesAnImage = ({ image }: ComposeService): boolean =>
  image !== null && !image.some((part) => typeof part !== 'string' && OF_HARBOR.includes(part.variable))
