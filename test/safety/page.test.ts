import { expect, test } from 'vitest'
import { RULES, RULES_VERSION } from '../../src/harbor/safety/check-task.ts'
import { page } from '../docs/pages.ts'

test('docs/safety.md lists exactly the existing rules', () => {
  const { text } = page('docs/safety.md')
  const rows = [...text.matchAll(/^\| `(\w+)` \| (block|warn) \| (.*) \|$/gm)].map(([, id, severity, description]) => ({
    id,
    severity,
    description,
  }))
  expect(rows).toEqual(RULES.map(({ id, severity, description }) => ({ id, severity, description })))
  expect(text).toContain(`Version ${RULES_VERSION} of the rules`)
})
