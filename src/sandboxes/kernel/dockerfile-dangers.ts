import type { Dockerfile, DockerfileInstruction } from '../../harbor/dockerfile.ts'
import { SandboxUnsupported } from '../sandbox.ts'

/** Refuses features that give a build access to this machine. Called before anything is built. */
export function refuseDangers(dockerfile: Dockerfile): void {
  refuseAll(dockerfile, dangerOf)
}

/** Refuses ONBUILD commands of base images, which have not been checked. */
export function refuseTriggers(name: string, triggers: readonly string[]): void {
  if (triggers.length === 0) return
  throw new SandboxUnsupported(`The image ${name} has ONBUILD commands, which are not allowed. Use another base image.`)
}

function refuseAll({ stages }: Dockerfile, dangerIn: (instruction: DockerfileInstruction) => string | undefined): void {
  for (const instruction of stages.flatMap(({ instructions }) => instructions)) {
    const danger = dangerIn(instruction)
    if (danger) throw new SandboxUnsupported(`Line ${instruction.line} of the Dockerfile: ${danger} is refused.`)
  }
}

function dangerOf({ keyword, text, flags }: DockerfileInstruction): string | undefined {
  // ONBUILD would run in a later stage, where these checks would not see it.
  if (keyword === 'ONBUILD') return keyword
  if (keyword === 'WORKDIR' && /^\s*["']?\/(proc|sys|dev)(\/|\s|$)/.test(text)) return `WORKDIR ${text.trim()}`
  return flags.map(({ name, value }) => `--${name}=${value ?? ''}`).find((flag) => DANGEROUS_FLAG.test(flag))
}

const DANGEROUS_FLAG = /^--(security=|network=host$|mount=.*type=(secret|ssh))/i
