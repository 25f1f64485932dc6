import { type ChildProcess, spawn } from 'node:child_process'
import { createInterface } from 'node:readline'

export type Program = {
  /** The rest of the line after `assay ready`. */
  url: string
  /** Lines printed before it. */
  said: string[]
  process: ChildProcess
  exited: Promise<number | null>
  kill(signal: NodeJS.Signals): Promise<number | null>
}

/** Starts a TypeScript program in its own process and waits until it prints `assay ready`. */
export async function startProgram(
  file: string,
  options: string[],
  env: Record<string, string | undefined> = {},
): Promise<Program> {
  const child = spawn(process.execPath, [file, ...options], {
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const errors: string[] = []
  child.stderr.on('data', (chunk: Buffer) => errors.push(chunk.toString()))
  const exited = new Promise<number | null>((resolve) => child.once('exit', (code) => resolve(code)))
  const kill = (signal: NodeJS.Signals) => {
    child.kill(signal)
    return exited
  }

  const said: string[] = []
  const lines = createInterface({ input: child.stdout })
  for await (const line of lines) {
    const ready = /^assay ready ?(.*)$/.exec(line)
    if (ready) return { url: ready[1] ?? '', said, process: child, exited, kill }
    said.push(line)
  }
  throw new Error(`${file} ${options.join(' ')} ended with ${await exited} before it was ready: ${errors.join('')}`)
}
