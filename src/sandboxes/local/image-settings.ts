import { z } from 'zod'
import type { Image } from '../sandbox.ts'

const Words = z.array(z.string()).nullish()

/** Runtime settings of an image in the format of Docker and OCI. */
export const ImageSettings = z.object({
  User: z.string().nullish(),
  WorkingDir: z.string().nullish(),
  Env: Words,
  Entrypoint: Words,
  Cmd: Words,
  OnBuild: Words,
})
type ImageSettings = z.infer<typeof ImageSettings>

export const settingsOf = (settings: ImageSettings): Omit<Image, 'digest' | 'base'> => ({
  workdir: settings.WorkingDir || '/',
  user: settings.User || 'root',
  env: Object.fromEntries((settings.Env ?? []).map(splitVariable)),
  entrypoint: settings.Entrypoint ?? [],
  command: settings.Cmd ?? [],
})

function splitVariable(text: string): [string, string] {
  const at = text.indexOf('=')
  return at === -1 ? [text, ''] : [text.slice(0, at), text.slice(at + 1)]
}
