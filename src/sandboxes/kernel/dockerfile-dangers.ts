import type { Dockerfile, Instruction } from '../../harbor/dockerfile.ts'
import { SandboxUnsupported } from '../sandbox.ts'

/** Things of the machine that a build could ask for, or ways that led out of one. Refused before anything is built. */
export function refuseDangers({ stages }: Dockerfile): void {
  for (const instruction of stages.flatMap(({ instructions }) => instructions)) {
    const danger = dangerOf(instruction)
    if (danger) throw new SandboxUnsupported(`Line ${instruction.line} of the Dockerfile: ${danger} is refused.`)
  }
}

function dangerOf({ keyword, text, flags }: Instruction): string | undefined {
  if (keyword === 'WORKDIR' && /^\s*["']?\/(proc|sys|dev)(\/|\s|$)/.test(text)) return `WORKDIR ${text.trim()}`
  return flags.map(({ name, value }) => `--${name}=${value ?? ''}`).find((flag) => DANGEROUS_FLAG.test(flag))
}

const DANGEROUS_FLAG = /^--(security=|network=host$|mount=.*type=(secret|ssh))/
