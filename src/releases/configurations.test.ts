import { expect, test } from 'vitest'
import { openRepositoryModelComparisonLab } from '../../test/support/model-comparing.ts'
import { createReleaseClient } from '../../test/support/releases.ts'
import { createConfiguration } from '../configurations/schema.ts'
import { connectRepository } from '../repos/schema.ts'
import { readResults } from '../results/schema.ts'

const SECRET = 'only our team knows this rule'
const script = { tasks: [{ match: 'Work', turns: [{ say: 'Done.', usage: { input: 1000, output: 100 } }] }] }

test('a release shows name and digest of a configuration, and nothing of its content', async () => {
  await using lab = await openRepositoryModelComparisonLab(async (ask) => {
    await ask()
    return { state: 'passed', class: 'verified', reward: 1 }
  }, script)
  const { app } = lab
  const place = lab.repository.place
  const source = { kind: 'git', url: 'https://git.example.org/demo.git' } as const
  await app.call(connectRepository, { params: place, body: { source, visibility: 'public' } })
  const files = [{ path: 'AGENTS.md', text: SECRET, executable: false }]
  const { body: made } = await app.call(createConfiguration, { body: { name: 'rules', files } as never })
  const [choice] = lab.models
  await lab.create({ models: [choice, { ...choice, configuration: 'rules' }] })
  await lab.work()

  const published = await createReleaseClient(app, place).publishAll()
  expect(published.status, published.text).toBe(201)
  const [plain, configured] = published.body.settings
  expect(plain).not.toHaveProperty('configuration')
  expect(configured).toMatchObject({
    id: `${plain.id}|rules@1`,
    configuration: { name: 'rules', version: 1, digest: made.digest },
  })
  const read = await app.call(readResults, { params: place, key: null })
  expect(read.text).toContain(made.digest)
  const page = await app.fetch(`/results/${place.owner}/${place.name}`, { headers: { accept: 'text/html' } })
  expect(page.text).toContain('rules@1')
  for (const text of [published.text, read.text, page.text]) expect(text).not.toContain(SECRET)
})
