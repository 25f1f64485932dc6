import type { ConfigEnvironment } from '../../src/config.ts'
import { type Program, startProgram } from './program.ts'

const BIN = new URL('../../bin/assay', import.meta.url).pathname

/** The real program in its own process, with the admin key that this start printed. */
export type ServiceProcess = Program & { newKey: string | undefined }

export async function startService(
  role: 'serve' | 'api' | 'work' | 'gateway',
  flags: string[],
  environment: ConfigEnvironment = {},
): Promise<ServiceProcess> {
  const program = await startProgram(BIN, [role, ...flags], { ASSAY_LOG: 'warn', ...environment })
  return { ...program, newKey: /assay_\w{38}/.exec(program.said.join('\n'))?.[0] }
}
