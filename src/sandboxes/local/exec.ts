import { join } from 'node:path'
import { readHits } from '../kernel/cgroup.ts'
import { explain, type SandboxEnding } from '../kernel/explain.ts'
import { runProgram } from '../kernel/run-program.ts'
import { type ExecSpec, type Exit, SandboxUnavailable } from '../sandbox.ts'
import { asOrdinaryUser, findAccount } from './account.ts'
import type { ControlShell } from './control.ts'
import { rootOf } from './files.ts'
import { type Input, openInput } from './input.ts'
import { environmentOf } from './launch.ts'
import { carryOutput, type Output } from './output.ts'
import type { LocalRunningSandbox } from './running.ts'

type Life = { isOver(): boolean; exited: Promise<unknown>; isDiskFull(since: number): Promise<boolean> }

/** Runs another command in a running sandbox until it ends, times out or the sandbox ends. */
export async function execIn(
  running: LocalRunningSandbox,
  control: ControlShell,
  life: Life,
  spec: ExecSpec,
): Promise<Exit> {
  if (life.isOver()) throw new SandboxUnavailable(`Sandbox ${running.spec.id} has ended: nothing can be run in it.`)
  const begun = performance.now()
  const before = await hitsOf(running)
  const account = await accountFor(running, spec)
  const number = control.next()
  const { input, output } = await openFiles(control, number, spec)
  try {
    void control.started(number).then(() => input.send())
    await control.startCommand({
      number,
      launcher: running.host.launcher,
      account,
      command: spec.command,
      workdir: spec.workdir ?? running.spec.workdir ?? running.spec.image.workdir,
      env: environmentOf(running.spec.image, account, { ...running.spec.env, ...spec.env }),
      hasInput: spec.input.length > 0,
    })
    const ending = await firstOf(control.code(number), life, spec.limits.seconds)
    const seconds = (performance.now() - begun) / 1000
    if (ending.stopped === 'seconds') control.kill(number)
    const { bytes } = await output.leave()
    const hits = await hitsOf(running)
    return explain({
      ...ending,
      seconds,
      outputBytes: bytes,
      outputMaxBytes: spec.limits.outputBytes,
      diskFull: await life.isDiskFull(begun).catch(() => false), // the sandbox may have gone meanwhile
      hits: { memory: hits.memory - before.memory, pids: hits.pids - before.pids },
    })
  } finally {
    input.close()
    await output.finish()
  }
}

async function openFiles(
  control: ControlShell,
  number: number,
  spec: ExecSpec,
): Promise<{ input: Input; output: Output }> {
  const [inputPipe = '', outputPipe = ''] = ['input', 'output'].map((name) => join(control.folder, `${number}.${name}`))
  await runProgram('mkfifo', ['-m', '666', inputPipe, outputPipe])
  const output = await carryOutput(outputPipe, spec.outputFile, spec.limits.outputBytes)
  return { output, input: await openInput(inputPipe, spec.input) }
}

async function accountFor({ host, holder, resources, spec }: LocalRunningSandbox, { user }: ExecSpec) {
  const wanted = user ?? spec.user ?? spec.image.user
  const found = await findAccount(rootOf(host, holder, resources.files), wanted)
  return host.rootless ? asOrdinaryUser(found, wanted) : found
}

/** Waits for the command's exit, its timeout or the end of the sandbox, whichever comes first. */
async function firstOf(
  ended: Promise<number>,
  life: Life,
  seconds: number,
): Promise<Pick<SandboxEnding, 'stopped' | 'code'>> {
  const late = Promise.withResolvers<'seconds'>()
  const clock = setTimeout(() => late.resolve('seconds'), seconds * 1000)
  const died = life.exited.then(
    () => 'kill' as const,
    () => 'kill' as const,
  )
  try {
    const first = await Promise.race([ended, late.promise, died])
    return typeof first === 'number' ? { stopped: undefined, code: first } : { stopped: first, code: undefined }
  } finally {
    clearTimeout(clock)
  }
}

const hitsOf = async ({ host, spec }: LocalRunningSandbox): Promise<{ memory: number; pids: number }> =>
  host.cgroups ? readHits(host.cgroups, spec.id) : { memory: 0, pids: 0 }
