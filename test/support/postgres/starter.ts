import { createInterface } from 'node:readline'
import { Client } from 'pg'
import { type EmbeddedPostgres, startPostgres } from '../../../src/platform/postgres/postgres.ts'

/** A separate process that starts the server on a folder, reports it, and then executes commands from its input. */
const folder = process.argv[2] ?? ''

const say = (fact: object) => console.log(JSON.stringify(fact))

const server = await startPostgres({ folder }).catch((error: Error) => {
  say({ failed: `${error.name}: ${error.message}` })
  process.exit(1)
})
say({ started: server.connection.host })

for await (const line of createInterface(process.stdin)) {
  if (line === 'stop') await stop(server)
  if (line === 'write') await write(server)
  if (line === 'cycle') await cycle(server)
}

async function stop(running: EmbeddedPostgres): Promise<never> {
  await running.stop()
  say({ stopped: true })
  process.exit(0)
}

/** Each number said is a row that the server acknowledged. */
async function write(running: EmbeddedPostgres): Promise<never> {
  const client = new Client(running.connection)
  client.on('error', () => undefined)
  await client.connect()
  try {
    for (;;) {
      const { rows } = await client.query('insert into written default values returning id')
      say({ id: rows[0].id })
    }
  } catch {
    say({ lost: true })
    process.exit(0)
  }
}

async function cycle(running: EmbeddedPostgres): Promise<never> {
  let current = running
  for (let round = 0; round < 15; round++) {
    await current.stop()
    current = await startPostgres({ folder })
    const client = new Client(current.connection)
    await client.connect()
    await client.query('select 1')
    await client.end()
  }
  return stop(current)
}
