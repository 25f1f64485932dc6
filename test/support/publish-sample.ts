import { expect } from 'vitest'
import { assay } from './assay-command.ts'

const REPO = ['--repo', 'lab/demo']
const MODEL = 'custom/scripted'
const FACTS = ['--name', 'scripted-1', '--label', 'Scripted', '--protocol', 'openai-chat', '--levels', 'low,high']
const PRICES = ['--base-url', 'https://scripted.example.com/v1', '--input', '2', '--output', '10']

type SampleService = { url: string; key: string; sandbox: string; task: string }

/**
 * Connects a repository, imports and approves a sample task, compares two settings of a scripted model and publishes
 * the result. The operator of the service maps `custom/scripted` to the mock provider. Returns the public page.
 */
export async function publishSample({ url, key, sandbox, task }: SampleService): Promise<string> {
  const env = { ASSAY_URL: url, ASSAY_KEY: key, SCRIPTED_KEY: 'sk-0123456789abcdef' }
  const command = async (...args: string[]): Promise<string> => {
    const { code, out, err } = await assay(args, { env })
    expect(code, `${args.join(' ')}: ${out}${err}`).toBe(0)
    return out.trim()
  }
  await command('repos', 'connect', 'lab/demo', '--public', '--git', 'https://git.example.org/demo.git')
  const batch = await command('batches', 'import', `samples/tasks/${task}`, ...REPO)
  await command('batches', 'watch', batch, ...REPO)
  await command('batches', 'approve', batch, task, ...REPO)
  await command('models', 'add', MODEL, ...FACTS, ...PRICES)
  await command('credentials', 'add', 'model', MODEL, '--name', 'Script', '--from-env', 'apiKey=SCRIPTED_KEY')
  const models = ['low', 'high'].flatMap((level) => ['--model', `${MODEL}@${level}=mini`])
  await command('compare', ...REPO, ...models, '--sandbox', sandbox, '--attempts', '3', '--budget', '5', '--yes')
  await command('releases', 'publish', ...REPO, '--yes')
  const page = await fetch(`${url}/results/lab/demo`, { headers: { accept: 'text/html' } })
  expect(page.status).toBe(200)
  return page.text()
}
