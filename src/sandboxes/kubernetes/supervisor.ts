import { createInterface } from 'node:readline'
import { SandboxUnavailable } from '../sandbox.ts'
import { type Cluster, MAIN } from './cluster.ts'
import { openAttach } from './exec-stream.ts'

/** Controls the first process of a sandbox. Everything in the sandbox ends when this connection ends. */
export type Supervisor = {
  /** Restores files that the runtime opens when it adds a command. */
  repair(): Promise<void>
  /** Kills all processes of the sandbox but the first. They are dead when this returns. */
  endAll(): Promise<{ oomKills: number }>
  /** Rejects when the connection is lost. Never resolves. */
  lost: Promise<never>
  close(): void
}

const ANSWER_MS = 60_000

export async function attachSupervisor(cluster: Cluster, pod: string): Promise<Supervisor> {
  const { kubernetes, namespace } = cluster
  const stream = await openAttach(kubernetes, { namespace, pod, container: MAIN })
  const lines = createInterface({ input: stream.output })[Symbol.asyncIterator]()
  const lost = stream.code.then(() => {
    throw new SandboxUnavailable('The first process of a sandbox has ended.')
  })
  lost.catch(() => {}) // reported when it is awaited

  let last: Promise<unknown> = Promise.resolve()
  /** Sends a line and returns the answer. Requests are answered in order. */
  const ask = (line: string): Promise<string> => {
    const answer = last.then(async () => {
      await stream.write(Buffer.from(`${line}\n`))
      const next = await Promise.race([lines.next(), lost, late()])
      return next.value ?? lost
    })
    last = answer.catch(() => {})
    return answer
  }
  await ask('hello')
  return {
    lost,
    close: () => stream.close(),
    async repair() {
      await ask('repair')
    },
    async endAll() {
      return { oomKills: Number(/^dead (\d+)$/.exec(await ask('end'))?.[1] ?? 0) }
    },
  }
}

const late = (): Promise<never> =>
  new Promise((_, reject) => {
    const timer = setTimeout(
      () => reject(new SandboxUnavailable('The first process of a sandbox does not answer.')),
      ANSWER_MS,
    )
    timer.unref()
  })
