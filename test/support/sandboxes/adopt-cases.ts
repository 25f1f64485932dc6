import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { type Sandbox, type SandboxProvider, SandboxUnavailable } from '../../../src/sandboxes/sandbox.ts'
import { adoptableSpec, finishCommand } from './adoptable-spec.ts'

/** A provider whose sandboxes outlive their process. */
export type AdoptionSubject = AsyncDisposable & {
  dataFolder: string
  /** Creates a provider without memory of earlier sandboxes, as a new process has it. */
  newProvider(): SandboxProvider
  /** Program and arguments that start the sandbox of an id, print `started` and wait. */
  client: string[]
  /** Waits until the command of a sandbox has ended. */
  waitForEnd(id: string): Promise<unknown>
  /** Removes a sandbox without its provider. */
  removeBehind(id: string): Promise<unknown>
  leftovers(id: string): Promise<string[]>
}

const OPEN_MS = 600_000

/** Declares the tests of a provider that can adopt sandboxes. Returns a function that returns the subject in a test. */
export function adoptionCases(open: () => Promise<AdoptionSubject>): () => AdoptionSubject {
  vi.setConfig({ testTimeout: 120_000 })
  let subject: AdoptionSubject
  beforeAll(async () => {
    subject = await open()
  }, OPEN_MS)
  afterAll(() => subject?.[Symbol.asyncDispose]())

  /** Starts a sandbox in another process, and kills that process while the command runs. Returns the id of the sandbox. */
  async function startInDyingProcess(): Promise<string> {
    const id = `adopt-${randomUUID()}`
    const child = spawn(process.execPath, [...subject.client, id], { stdio: ['ignore', 'pipe', 'inherit'] })
    await once(child.stdout, 'data')
    child.kill('SIGKILL')
    await once(child, 'exit')
    return id
  }

  const adopt = async (id: string, seconds = 20): Promise<Sandbox | undefined> => {
    const provider = subject.newProvider()
    const spec = await adoptableSpec(provider, subject.dataFolder, id)
    return provider.adopt?.({ ...spec, limits: { ...spec.limits, seconds } })
  }
  const readOutput = (id: string): Promise<string> => readFile(join(subject.dataFolder, `${id}.log`), 'utf8')

  test('a sandbox of a killed process continues in another one: its output is whole, its files can be read', async () => {
    const id = await startInDyingProcess()
    const sandbox = requireSandbox(await adopt(id))

    await finishCommand(sandbox, subject.dataFolder)

    expect(await sandbox.exited).toMatchObject({ code: 7, limit: null, outputBytes: 'begun\ndone\n'.length })
    expect(await readOutput(id)).toBe('begun\ndone\n')
    const found = await sandbox.stopped.collect('/result', { files: 1, bytes: 1000 })
    expect(found && (await text(found.tar))).toContain('work\n')
    await sandbox.remove()
    expect(await subject.leftovers(id)).toEqual([])
  })

  test('the changes of an adopted sandbox are those since its start', async () => {
    const id = await startInDyingProcess()
    const sandbox = requireSandbox(await adopt(id))
    await finishCommand(sandbox, subject.dataFolder)
    await sandbox.exited
    const changes = await Array.fromAsync(sandbox.stopped.changes())
    expect(changes.map(({ path }) => path).sort()).toEqual(['/go', '/result'])
    await sandbox.remove()
  })

  test('a sandbox whose command ended while it had no process is adopted with its exit code', async () => {
    const id = await startInDyingProcess()
    const first = requireSandbox(await adopt(id))
    await finishCommand(first, subject.dataFolder)
    await first.leave?.()
    await subject.waitForEnd(id)

    const sandbox = requireSandbox(await adopt(id))

    expect(await sandbox.exited).toMatchObject({ code: 7, limit: null })
    expect(await readOutput(id)).toBe('begun\ndone\n')
    await sandbox.remove()
  })

  test('a process that leaves a sandbox neither ends nor removes it', async () => {
    const id = await startInDyingProcess()
    const first = requireSandbox(await adopt(id))

    await first.leave?.()
    await expect(first.exited).rejects.toThrow('left to another process')
    await first.kill()
    await first.remove()

    const second = requireSandbox(await adopt(id))
    await finishCommand(second, subject.dataFolder)
    expect((await second.exited).code).toBe(7)
    await second.remove()
  })

  test('the files of a sandbox that somebody removed are an error, and not missing files', async () => {
    const id = await startInDyingProcess()
    const sandbox = requireSandbox(await adopt(id))
    await finishCommand(sandbox, subject.dataFolder)
    await sandbox.exited
    await subject.removeBehind(id)
    await expect(sandbox.stopped.collect('/result', { files: 1, bytes: 1000 })).rejects.toThrow(SandboxUnavailable)
    await sandbox.remove()
  })

  test('the time limit counts from the start of the command', async () => {
    const id = await startInDyingProcess()
    const sandbox = requireSandbox(await adopt(id, 0.5))
    const exit = await sandbox.exited
    expect(exit).toMatchObject({ code: null, limit: 'seconds' })
    expect(exit.seconds).toBeGreaterThan(0.5)
    await sandbox.remove()
  })

  test('cleanup keeps a sandbox that may be adopted, and removes it otherwise', async () => {
    const id = await startInDyingProcess()
    expect(await subject.newProvider().reap(new Set([id]))).toBe(0)
    expect(await subject.newProvider().reap(new Set(['another']))).toBe(1)
    expect(await adopt(id)).toBeUndefined()
    expect(await subject.leftovers(id)).toEqual([])
  })

  test('a sandbox that was not started as adoptable cannot be adopted', async () => {
    const id = `adopt-${randomUUID()}`
    const provider = subject.newProvider()
    const spec = { ...(await adoptableSpec(provider, subject.dataFolder, id)), isAdoptable: false }
    const sandbox = await provider.start(spec)
    expect(sandbox.leave).toBeUndefined()
    expect(await adopt(id)).toBeUndefined()
    await sandbox.remove()
  })
  return () => subject
}

const requireSandbox = (sandbox: Sandbox | undefined): Sandbox => {
  if (!sandbox) throw new Error('The sandbox was not adopted.')
  return sandbox
}
