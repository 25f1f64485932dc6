import { readFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { startProvider } from './provider.ts'
import { ProviderScript } from './script.ts'

const { values } = parseArgs({
  options: {
    port: { type: 'string', default: '0' },
    host: { type: 'string', default: '127.0.0.1' },
    script: { type: 'string' },
  },
})

const script = values.script === undefined ? {} : ProviderScript.parse(JSON.parse(readFileSync(values.script, 'utf8')))
const provider = await startProvider(script, { port: Number(values.port), host: values.host })
process.stdout.write(`${provider.url}\n`)
