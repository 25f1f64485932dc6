import type { Step, Task } from '../harbor/task.ts'
import { SandboxUnsupported } from '../sandboxes/sandbox.ts'

/** Refuses by name what this engine does not do yet, before anything is built or spent. */
export function requireSupported(task: Task): void {
  const wants = [...environmentWants(task), ...task.steps.flatMap(stepWants)]
  if (wants.length > 0) throw new SandboxUnsupported(`This engine does not do yet: ${[...new Set(wants)].join('; ')}.`)
}

function environmentWants({ environment }: Task): string[] {
  return [
    ...(environment.os === 'windows' ? ['environment.os = "windows"'] : []),
    ...(environment.compose ? ['docker-compose'] : []),
    ...(environment.healthcheck ? ['environment.healthcheck'] : []),
    ...(environment.mcpServers.length > 0 ? ['environment.mcp_servers'] : []),
    ...(environment.resources.gpus ? ['environment.gpus'] : []),
    ...(environment.resources.tpu ? ['environment.tpu'] : []),
  ]
}

function stepWants(step: Step): string[] {
  return [
    ...(step.setup || step.workdir ? ['a step with a workdir folder'] : []),
    ...(step.healthcheck ? ['a healthcheck of a step'] : []),
    ...(step.verifier.collect.length > 0 ? ['verifier.collect'] : []),
    ...(step.verifier.place.mode === 'separate' ? ['a separate verifier'] : []),
  ]
}
